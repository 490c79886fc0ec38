package e2e

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	rounds, soakRounds = 3, 20
	away, soakAway     = 20 * time.Second, 2 * time.Minute
)

// TestKillService: the service is killed under load, again and again.
func TestKillService(t *testing.T) {
	t.Parallel()
	killService(t, rounds)
}

func TestSoakKillService(t *testing.T) {
	soak(t)
	t.Parallel()
	killService(t, soakRounds)
}

func killService(t *testing.T, rounds int) {
	s := serve(t)
	s.faults = true
	l := startLoad(t, 21, s)
	for range rounds {
		l.more(t, 100, 5)
		s.kill(t)
		s.start(t)
	}
	l.more(t, 100, 5)
	l.finish(t).check(t, s)
	s.stop(t)
}

// TestKillClickHouse: the engine is killed under load, again and again; the
// service goes on taking facts in and starts it anew.
func TestKillClickHouse(t *testing.T) {
	t.Parallel()
	killClickHouse(t, rounds)
}

func TestSoakKillClickHouse(t *testing.T) {
	soak(t)
	t.Parallel()
	killClickHouse(t, soakRounds)
}

func killClickHouse(t *testing.T, rounds int) {
	s := serve(t)
	s.faults = true
	l := startLoad(t, 22, s)
	for range rounds {
		l.more(t, 100, 5)
		pid := clickHousePID(t, s.dir)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		until(t, "ClickHouse is another process", func() bool { return clickHousePID(t, s.dir) != pid })
		until(t, "the service is ready", func() bool { return s.status("/readyz") == http.StatusOK })
	}
	l.more(t, 100, 5)
	want := l.finish(t)
	if len(l.refused) > 0 {
		t.Errorf("pushes were refused while ClickHouse was away: %v", l.refused)
	}
	want.check(t, s)
	if s.ended() {
		t.Error("the service did not survive it")
	}
	s.stop(t)
}

// TestClickHouseAway: ClickHouse is out of reach for a while. Facts are taken
// all the same, the service says that it is not ready, and queries that they
// may be repeated.
func TestClickHouseAway(t *testing.T) {
	t.Parallel()
	clickHouseAway(t, away)
}

func TestSoakClickHouseAway(t *testing.T) {
	soak(t)
	t.Parallel()
	clickHouseAway(t, soakAway)
}

func clickHouseAway(t *testing.T, lasts time.Duration) {
	e := startEngines(t)
	p := newProxy(t, e.clickHouse)
	s := e.serve(t, p.addr())
	s.faults = true
	l := startLoad(t, 23, s)
	l.more(t, 100, 5)
	p.setAway(true)
	back := time.Now().Add(lasts)
	until(t, "the service is not ready", func() bool { return s.status("/readyz") == http.StatusServiceUnavailable })
	for time.Now().Before(back) {
		l.more(t, 20, 1) // what is acknowledged while ClickHouse is away
	}
	got := send(t.Context(), http.MethodGet, "http://"+s.api+"/v1/spend", nil)
	if got.status != http.StatusServiceUnavailable || got.retryAfter == "" {
		t.Errorf("spend while ClickHouse is away: %+v", got)
	}
	if s.metric(t, "tatara_ledger_journal_pending_records") == 0 {
		t.Error("nothing is in the journal")
	}
	if s.status("/healthz") != http.StatusOK {
		t.Error("the service is not alive")
	}
	p.setAway(false)
	until(t, "the service is ready", func() bool { return s.status("/readyz") == http.StatusOK })
	want := l.finish(t)
	if len(l.refused) > 0 {
		t.Errorf("pushes were refused while ClickHouse was away: %v", l.refused)
	}
	want.check(t, s)
	s.stop(t)
}

// TestStartWhileAway: the service starts and takes facts while ClickHouse is
// away, and goes on when ClickHouse goes away again in the middle of the
// migrations, however often.
func TestStartWhileAway(t *testing.T) {
	t.Parallel()
	e := startEngines(t)
	p := newProxy(t, e.clickHouse)
	p.setAway(true)
	s := e.newService(t, p.addr())
	s.faults = true
	s.process = start(t, s.args...)
	until(t, "the service lives", func() bool { return s.ended() || s.status("/healthz") == http.StatusOK })
	book, maker, want := prices(t), newCallMaker("start", 25), newTruth()
	takes := func() {
		t.Helper()
		calls := maker.batch(20)
		post(t, calls, s)
		for i := range calls {
			want.add(calls[i].key(), calls[i].sum(t, book))
		}
		for _, path := range []string{"/readyz", "/v1/spend"} {
			if got := s.status(path); got != http.StatusServiceUnavailable {
				t.Errorf("%s without a ledger: %d", path, got)
			}
		}
	}
	takes()
	for _, bytes := range []int64{300, 3000, 6000} { // all migrations are over 20 kB
		enough := p.passed.Load() + bytes
		p.setAway(false)
		until(t, "a part of the migrations is done", func() bool { return p.passed.Load() >= enough })
		p.setAway(true)
		takes()
	}
	p.setAway(false)
	s.awaitReady(t)
	want.check(t, s)
	s.stop(t)
}

// journalBytes is a journal that is full within seconds.
const journalBytes = "8388608"

// TestJournalFull: ClickHouse is away until the journal is full. From then on
// clients are told to come back, and when they do nothing is lost or counted
// twice.
func TestJournalFull(t *testing.T) {
	t.Parallel()
	e := startEngines(t)
	p := newProxy(t, e.clickHouse)
	s := e.serve(t, p.addr(), "--journal-bytes", journalBytes)
	s.faults = true
	l := startLoad(t, 24, s)
	l.more(t, 50, 2)
	p.setAway(true)
	calls, want := fill(t, s)
	if n := s.metric(t, "tatara_ledger_journal_full_total"); n == 0 {
		t.Error("the refusals are not counted")
	}
	until(t, "pushes are refused", func() bool {
		got := send(t.Context(), http.MethodDelete, s.pushURL()+"?run_id=nobody", nil)
		return got.status == http.StatusServiceUnavailable && got.retryAfter != ""
	})
	p.setAway(false)
	post(t, calls, s) // what was refused
	l.more(t, 50, 2)
	got := l.finish(t)
	for k, v := range want.spend {
		got.add(k, v)
	}
	got.check(t, s)
	s.stop(t)
}

// fill posts large calls until they are refused. It returns those, and the
// truth of all, as if they had been taken.
func fill(t *testing.T, s *service) (refused []call, want truth) {
	t.Helper()
	book, maker := prices(t), newCallMaker("fill", 24)
	want = newTruth()
	for range 1000 {
		calls := maker.batch(100)
		for i := range calls {
			calls[i].Session = strings.Repeat("s", 1000) // a journal of this is soon full
			want.add(calls[i].key(), calls[i].sum(t, book))
		}
		got := send(t.Context(), http.MethodPost, "http://"+s.api+"/v1/calls", ndjson(t, calls))
		if got.status == http.StatusOK {
			continue
		}
		if got.status != http.StatusServiceUnavailable || got.retryAfter == "" {
			t.Fatalf("a full journal: %+v", got)
		}
		return calls, want
	}
	t.Fatal("the journal was never full")
	return nil, want
}
