package e2e

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestStopWhileClickHouseHangs: a ClickHouse that neither answers nor hangs up
// holds no stop for longer than a supervisor waits, a second signal ends the
// service at once, and neither loses what was acknowledged.
func TestStopWhileClickHouseHangs(t *testing.T) {
	t.Parallel()
	s := newService(t, "--drain-timeout", "1s")
	s.faults = true
	book, maker, want := prices(t), newCallMaker("hang", 26), newTruth()
	take := func() {
		t.Helper()
		calls := maker.batch(20)
		post(t, calls, s)
		for i := range calls {
			want.add(calls[i].key(), calls[i].sum(t, book))
		}
	}
	hang := func() {
		t.Helper()
		s.start(t)
		take()
		drained(t, s) // over connections that the next write finds open, and waits on
		if err := syscall.Kill(clickHousePID(t, s.dir), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		take()
	}
	signal := func(sig syscall.Signal) {
		t.Helper()
		// Ended, though perhaps not yet known to be: that is what it is for.
		if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
	}
	within := func(what string, most time.Duration, begin time.Time) {
		t.Helper()
		if took := time.Since(begin); took > most {
			t.Errorf("%s took %s", what, took)
		}
		until(t, "the engines are gone", func() bool { return len(users(t, s.dir)) == 0 })
	}

	hang()
	begin := time.Now()
	signal(syscall.SIGINT)
	signal(syscall.SIGTERM) // as a script does that the Ctrl-C reaches too
	s.awaitExit(t)
	// The drain, the writer's 5 s, and 19 s for an engine that heeds no signal.
	within("the stop", 40*time.Second, begin)
	if log := s.stderr.String(); !strings.Contains(log, "stopping in the middle of a write") {
		t.Errorf("the stop does not say what became of the write:\n%s", tail(log))
	}

	hang()
	begin = time.Now()
	signal(syscall.SIGTERM)
	until(t, "the signals end the service", func() bool {
		signal(syscall.SIGINT)
		return s.ended()
	})
	within("the end by a Ctrl-C after it", 15*time.Second, begin)

	s.start(t)
	drained(t, s)
	want.check(t, s)
	s.stop(t)
}
