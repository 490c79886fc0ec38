package e2e

import (
	"net/http"
	"syscall"
	"testing"
	"time"
)

const (
	frozen, soakFrozen = 3 * time.Second, 45 * time.Second
	cuts, soakCuts     = 15, 300
	// The engine is started later every time that it dies young: more would wait
	// for half a minute each.
	soakKills = 8
)

// ledgerOf is the account of a service's own ClickHouse that reads its events.
func ledgerOf(t *testing.T, s *service) clickHouse {
	t.Helper()
	return grafana(t, s.serving(t)["clickhouse"], s.dir)
}

// TestKillServiceInTalk: the service is killed while it is written to, again
// and again. What it acknowledged is there, and what clients repeat is not
// there twice.
func TestKillServiceInTalk(t *testing.T) {
	t.Parallel()
	killServiceInTalk(t, rounds)
}

func TestSoakKillServiceInTalk(t *testing.T) {
	soak(t)
	t.Parallel()
	killServiceInTalk(t, soakRounds)
}

func killServiceInTalk(t *testing.T, rounds int) {
	s := serve(t)
	s.faults = true
	l := startTalk(t, s)
	for range rounds {
		l.more(t, 150)
		s.kill(t)
		s.start(t)
	}
	l.more(t, 150)
	l.finish(t, ledgerOf(t, s))
	s.stop(t)
}

// TestPostgresFaults: Postgres is killed, its connections are cut, and it
// freezes, under load. Clients wait, or are told to come back.
func TestPostgresFaults(t *testing.T) {
	t.Parallel()
	postgresFaults(t, rounds, cuts, frozen)
}

func TestSoakPostgresFaults(t *testing.T) {
	soak(t)
	t.Parallel()
	postgresFaults(t, soakKills, soakCuts, soakFrozen)
}

func postgresFaults(t *testing.T, kills, cuts int, frozen time.Duration) {
	s := serve(t)
	s.faults = true
	l := startTalk(t, s)
	ready := func() {
		t.Helper()
		until(t, "the service is ready", func() bool { return s.status("/readyz") == http.StatusOK })
		l.more(t, 150)
	}
	for range kills {
		l.more(t, 150)
		killPostgres(t, s)
		ready()
	}
	cutConnections(t, s.dir, cuts, func() { l.more(t, 10) })
	ready()

	signalPostgres(t, s.dir, syscall.SIGSTOP)
	before := time.Now()
	time.Sleep(frozen)
	signalPostgres(t, s.dir, syscall.SIGCONT)
	ready()
	t.Logf("frozen for %s, back after %s", frozen, time.Since(before))

	l.finish(t, ledgerOf(t, s))
	if s.ended() {
		t.Error("the service did not survive it")
	}
	if s.metric(t, "tatara_ledger_postgres_retries_total") == 0 {
		t.Error("nothing was tried again")
	}
	s.stop(t)
}

// TestEventsWhileClickHouseAway: ClickHouse is away and is killed while
// handoffs and rooms are written. Nobody notices, and the ledger gets every
// event once.
func TestEventsWhileClickHouseAway(t *testing.T) {
	t.Parallel()
	e := startEngines(t)
	p := newProxy(t, e.clickHouse)
	s := e.serve(t, p.addr())
	s.faults = true
	l := startTalk(t, s)
	l.more(t, 100)
	for range rounds {
		p.setAway(true)
		l.more(t, 200)
		p.setAway(false)
		l.more(t, 100)
	}
	pid := clickHousePID(t, e.dir)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.more(t, 200)
	until(t, "ClickHouse is another process", func() bool { return clickHousePID(t, e.dir) != pid })
	until(t, "the service is ready", func() bool { return s.status("/readyz") == http.StatusOK })
	l.finish(t, grafana(t, e.clickHouse, e.dir))
	if n := l.witness.statuses[http.StatusServiceUnavailable]; n > 0 {
		t.Errorf("%d requests were refused for the sake of analytics", n)
	}
	until(t, "the outbox is empty", func() bool { return s.metric(t, "tatara_ledger_outbox_pending_rows") == 0 })
	s.stop(t)
}
