#!/bin/sh
# Start everything on this machine, feed it, show the report, and stay up until
# Ctrl-C: sh scripts/demo.sh [flags of serve]. Data goes to a throw-away folder,
# or to $DEMO_DATA, which stays.
set -eu
cd "$(dirname "$0")/.."
: "${BINARY:=bin/tatara-ledger}" "${PODS:=24}"

service=
scratch=$(mktemp -d "${TMPDIR:-/tmp}/tatara-ledger-demo.XXXXXX")
# Engines of root run as another user, who must reach the folder.
chmod 711 "$scratch"
data=${DEMO_DATA:-$scratch/data}
log=$scratch/serve.log

step() { printf '\n==> %s\n' "$*"; }

stop() {
	status=$?
	trap '' INT TERM HUP
	if [ -n "$service" ] && kill -0 "$service" 2>/dev/null; then
		step 'stopping'
		kill -TERM "$service"
		wait "$service" || { status=$?; complain; }
	fi
	rm -rf "$scratch"
	[ "$status" != 0 ] || echo 'stopped'
	exit "$status"
}
# What the program says for people is what is not a line of its log.
complain() { grep -v '^{' "$log" >&2 || tail -n 5 "$log" >&2; }
died() {
	status=0
	wait "$service" || status=$?
	service=
	complain
	exit "$status"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

step 'installing the engines (about 200 MB the first time)'
"$BINARY" engines install

step 'starting ClickHouse, Postgres and the service'
"$BINARY" serve --data-dir "$data" "$@" 2>"$log" &
service=$!
until serving=$(grep '"msg":"serving".*"push"' "$log"); do
	kill -0 "$service" 2>/dev/null || died
	sleep 0.2
done
address() { printf '%s\n' "$serving" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
api=http://$(address api) push=http://$(address push)/internal/metrics/push clickhouse=http://$(address clickhouse)
echo "it answers at $api"

step 'replaying what a real wrapper pushed'
"$BINARY" simulate replay --push-url "$push"

step "simulating a fleet of $PODS pods"
"$BINARY" simulate --pods "$PODS" --push-url "$push" >/dev/null

# An answer is given when a push is durable; the ledger has it a moment later.
report() { "$BINARY" report --url "$api" --since 30d "$@"; }
seen='' tries=0
until now=$(report --format csv | tail -n +2) && [ -n "$now" ] && [ "$now" = "$seen" ] || [ "$tries" -ge 50 ]; do
	seen=$now tries=$((tries + 1))
	sleep 0.5
done

step 'tatara-ledger report --by kind'
report --by kind
step 'tatara-ledger report --by model'
report --by model

cat <<END

  API          $api/v1/spend?by=kind
  push         $push (OPERATOR_PUSH_URL of a wrapper)
  ClickHouse   $clickhouse, user grafana, password in $data/secrets/clickhouse-grafana
  log          $log

It stays up until Ctrl-C.
END
trap 'exit 0' INT TERM
died
