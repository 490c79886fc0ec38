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

# Every check runs, so that one visit finds all there is.
failed=
wrong() {
	echo "verify: $*" >&2
	failed=1
}

echo 'go mod tidy' >&2
"$GO" mod tidy -diff || wrong 'run go mod tidy'

echo 'formatting' >&2
"$LINTER" fmt --diff || wrong "run $LINTER fmt"

before=$(state)
echo 'go generate' >&2
"$GO" generate ./... || wrong 'go generate fails'

# A test that makes goldens asks for *update, itself or in a helper that it calls.
tests() { # PATTERN FILE...: the functions in whose bodies the pattern is
	pattern=$1
	shift
	awk -v pattern="$pattern" '
		/^func / { name = $2; sub(/[(\[].*/, "", name); next }
		$0 ~ pattern { print name }' "$@" | sort -u
}
golden=$(git ls-files -co --exclude-standard '*_test.go' | sed 's,/[^/]*$,,' | sort -u | while IFS= read -r package; do
	for name in $(tests '[*]update([^A-Za-z0-9_]|$)' "$package"/*_test.go); do
		case $name in
		Test*) echo "./$package ^$name\$" ;;
		*) for test in $(tests "(^|[^A-Za-z0-9_.])$name[(]" "$package"/*_test.go); do echo "./$package ^$test\$"; done ;;
		esac
	done
done | sort -u)
if [ -n "$golden" ]; then
	printf 'goldens:\n%s\n' "$golden" >&2
	while read -r package tests; do
		"$GO" test "$package" -run "$tests" -update >&2 </dev/null || wrong "the goldens of $package cannot be made"
	done <<END
$golden
END
fi
if [ "$before" != "$(state)" ]; then
	wrong 'what is generated was not up to date: commit what has changed'
	git status --short >&2
	git --no-pager diff --stat >&2
fi
[ -z "$failed" ] || exit 1
echo 'verified: nothing changes' >&2
