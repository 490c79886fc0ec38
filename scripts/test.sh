#!/bin/sh
# Run the tests with the real engines: sh scripts/test.sh [flags of go test]
set -eu
cd "$(dirname "$0")/.."
: "${GO:=go}" "${BINARY:=bin/tatara-ledger}"
. scripts/packages.sh

# The race detector is the one thing that needs a C compiler.
race=-race
cc=$("$GO" env CC)
if ! need "${cc%% *}" gcc libc6-dev; then
	race=
	export CGO_ENABLED=0
	echo 'NOT RACE-TESTED: there is no C compiler, so the tests run without -race.' >&2
	echo 'SKIPPED: whatever only the race detector finds.' >&2
else
	export CGO_ENABLED=1
fi

# Tests of the engine itself look for the library by this name.
installed=$("$BINARY" engines install)
echo "$installed" >&2
folder=${installed##* are in }
if [ -z "${TATARA_LEDGER_CHDB_LIB:-}" ]; then
	for library in "$folder"/node_modules/@chdb/*/libchdb.so "$folder"/node_modules/@chdb/*/libchdb.dylib; do
		[ ! -f "$library" ] || export TATARA_LEDGER_CHDB_LIB="$library"
	done
fi
if [ -z "${TATARA_LEDGER_CHDB_LIB:-}" ]; then
	echo 'SKIPPED: the tests of the embedded ClickHouse; none is pinned for this platform.' >&2
	[ "${CI:-}" != true ] || exit 1
fi

# Prometheus' own tools check the alerting rules and the example routing; the
# servers show what comes of them.
need promtool prometheus || echo 'SKIPPED: the tests of the alerting rules.' >&2
need prometheus prometheus || echo 'SKIPPED: the test that a real Prometheus scrapes the service.' >&2
need amtool prometheus-alertmanager || echo "SKIPPED: the check of Alertmanager's routing." >&2
need prometheus-alertmanager prometheus-alertmanager || echo 'SKIPPED: the tests that deliver to a real Alertmanager.' >&2

# A package takes a minute or two, e2e five; engines on a busy machine take longer.
exec "$GO" test $race -shuffle=on -timeout 30m "$@" ./...
