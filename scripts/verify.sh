#!/bin/sh
# Make again what is made by a program, and fail when that changes a file.
set -eu
cd "$(dirname "$0")/.."
: "${GO:=go}" "${LINTER:?}"

state() {
	git status --porcelain
	git diff HEAD
	git ls-files --others --exclude-standard | while IFS= read -r file; do cksum "$file"; done
}

echo 'go mod tidy' >&2
"$GO" mod tidy -diff
(cd tools && "$GO" mod verify >/dev/null)

echo 'formatting' >&2
"$LINTER" fmt --diff

before=$(state)
echo 'go generate' >&2
"$GO" generate ./...

# Packages with goldens have a flag for it.
golden=$(git ls-files -co --exclude-standard '*_test.go' | xargs grep -lE 'flag\.Bool(Var)?\(.*"update"' /dev/null |
	sed 's|^|./|; s|/[^/]*$||' | sort -u)
if [ -n "$golden" ]; then
	echo "goldens of" $golden >&2
	"$GO" test $golden -update >&2
fi
if [ "$before" != "$(state)" ]; then
	echo 'What is generated is not up to date: run make verify and commit what it changes.' >&2
	git status --short >&2
	git --no-pager diff --stat >&2
	exit 1
fi
echo 'verified: nothing changes' >&2
