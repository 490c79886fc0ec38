package simulate

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func newFleet(t *testing.T, change func(*Config)) *Fleet {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Interval, cfg.BackoffMin, cfg.BackoffMax = 0, time.Millisecond, 10*time.Millisecond
	change(&cfg)
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return decorated(f)
}

func run(t *testing.T, f *Fleet) (Truth, Report) {
	t.Helper()
	truth, report, err := f.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return truth, report
}

// TestModes: whatever the mode, and with faults that leave no doubt about what
// was kept, the truth is what the receivers have.
func TestModes(t *testing.T) {
	t.Parallel()
	certain := []fault{refused, busy, cut}
	for name, test := range map[string]struct {
		change func(*Config)
		faults []fault
	}{
		"plain":                     {func(*Config) {}, nil},
		"duplicate":                 {func(c *Config) { c.Duplicate = true }, nil},
		"shuffle":                   {func(c *Config) { c.Shuffle = true }, nil},
		"shuffle at a pace":         {func(c *Config) { c.Shuffle, c.Interval, c.Pods = true, time.Millisecond, 10 }, nil},
		"lossy":                     {func(*Config) {}, certain},
		"lossy duplicate":           {func(c *Config) { c.Duplicate = true }, certain},
		"lossy shuffle":             {func(c *Config) { c.Shuffle, c.Duplicate = true, true }, certain},
		"until acknowledged":        {func(c *Config) { c.UntilAcknowledged = true }, []fault{busy, broken, cut, cutAfter}},
		"until acknowledged, all":   {func(c *Config) { c.UntilAcknowledged, c.Duplicate, c.Shuffle = true, true, true }, []fault{busy, broken, cut, cutAfter}},
		"no turns":                  {func(c *Config) { c.Turns = 0 }, nil},
		"one pod at a time, paused": {func(c *Config) { c.Concurrency, c.Pods, c.Gap = 1, 5, 20*time.Millisecond }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, url := newReceiver(t)
			if test.faults != nil {
				r.fault = sometimes(2, test.faults...)
			}
			f := newFleet(t, func(c *Config) { c.PushURLs = []string{url}; test.change(c) })
			truth, report := run(t, f)
			if diff := cmp.Diff(r.sums(), sumsOf(truth)); diff != "" {
				t.Errorf("(-received +truth):\n%s", diff)
			}
			if report.Requests != len(r.requests) || report.Requests != report.Planned+report.Retried || report.Lives != f.Lives() {
				t.Errorf("%d requests received, %d planned: %+v", len(r.requests), f.Requests(), report)
			}
			if f.cfg.Duplicate != (report.Copies > 0) {
				t.Errorf("%+v", report)
			}
			if test.faults == nil || f.cfg.UntilAcknowledged {
				if report.Unacknowledged != 0 || report.Uncertain != 0 {
					t.Errorf("%+v", report)
				}
				if diff := cmp.Diff(f.Planned(time.Now()), truth); diff != "" {
					t.Errorf("(-planned +truth):\n%s", diff)
				}
			} else if report.Unacknowledged == 0 || len(report.Rejected) == 0 || report.Transport == 0 {
				t.Errorf("the faults left no trace: %+v", report)
			}
		})
	}
}

// TestContentIsTheSeeds: what is sent does not depend on scheduling, mode or
// receivers.
func TestContentIsTheSeeds(t *testing.T) {
	t.Parallel()
	sent := func(change func(*Config)) map[string]string {
		one, first := newReceiver(t)
		two, second := newReceiver(t)
		run(t, newFleet(t, func(c *Config) { c.PushURLs, c.Pods = []string{first, second}, 15; change(c) }))
		if len(one.requests) == 0 || len(two.requests) == 0 {
			t.Error("a receiver heard nothing")
		}
		out := map[string]string{}
		for _, q := range append(one.requests, two.requests...) {
			if before, ok := out[q.life]; ok && before != string(q.body) {
				t.Errorf("%s was sent with two bodies", q.life)
			}
			out[q.life] = string(q.body)
		}
		return out
	}
	want := sent(func(*Config) {})
	for name, change := range map[string]func(*Config){
		"again":     func(*Config) {},
		"serial":    func(c *Config) { c.Concurrency = 1 },
		"shuffled":  func(c *Config) { c.Shuffle = true },
		"duplicate": func(c *Config) { c.Duplicate = true },
	} {
		if got := sent(change); !maps.Equal(want, got) {
			t.Errorf("%s:\n%s", name, cmp.Diff(want, got))
		}
	}
	if maps.Equal(want, sent(func(c *Config) { c.Seed = 2 })) {
		t.Error("two seeds are one")
	}
}

// TestPushCounter: a snapshot says how many pushes its process attempted
// before, by their outcome, and a repeated one is the same.
func TestPushCounter(t *testing.T) {
	t.Parallel()
	r, url := newReceiver(t)
	r.fault = sometimes(3, refused, busy, cut)
	var mu sync.Mutex
	counts := map[string][3]int{} // ok, rejected, transport_fail by life
	bodies := map[string][]byte{}
	f := newFleet(t, func(c *Config) {
		c.PushURLs, c.UntilAcknowledged, c.Pods = []string{url}, true, 20
		c.After = func(q Request, o Outcome) {
			if q.Method != http.MethodPost {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			life := q.Pod + "/" + string(rune('0'+q.Life))
			if q.Attempt > 1 {
				if !bytes.Equal(q.Body, bodies[life]) {
					t.Errorf("%s: attempt %d differs", life, q.Attempt)
				}
				return
			}
			bodies[life] = q.Body
			n := counts[life]
			for i, result := range []string{"ok", "rejected", "transport_fail"} {
				line := `ccw_metric_push_total{result="` + result + `"} ` + string(rune('0'+n[i]%10))
				if n[i] > 0 && n[i] < 10 && !hasLine(q.Body, line) || n[i] == 0 && strings.Contains(string(q.Body), `total{result="`+result) {
					t.Errorf("%s push %d: want %s", life, q.Push, line)
				}
			}
			switch {
			case o.Acknowledged():
				n[0]++
			case o.Status > 0:
				n[1]++
			default:
				n[2]++
			}
			counts[life] = n
		}
	})
	_, report := run(t, f)
	if report.Retried == 0 {
		t.Errorf("nothing was repeated: %+v", report)
	}
}

// TestRequestsAreTheWrappers compares the request with the recorded one.
func TestRequestsAreTheWrappers(t *testing.T) {
	t.Parallel()
	r, url := newReceiver(t)
	var header http.Header
	var deleted atomic.Bool
	r.fault = func(req *http.Request) fault {
		if req.Method == http.MethodDelete {
			deleted.Store(true)
			if req.ContentLength != 0 || req.Header.Get("Content-Type") != "" {
				t.Errorf("DELETE with %d bytes of %q", req.ContentLength, req.Header.Get("Content-Type"))
			}
		} else {
			header = req.Header.Clone()
		}
		return none
	}
	f := newFleet(t, func(c *Config) { c.PushURLs, c.Pods, c.Concurrency = []string{url}, 5, 1 })
	run(t, f)
	header.Del(lifeHeader)
	header.Del("Content-Length")
	want := http.Header{
		"Accept-Encoding": {"gzip"}, "User-Agent": {"Go-http-client/1.1"}, "Content-Type": {"text/plain; version=0.0.4; charset=utf-8"},
	}
	if diff := cmp.Diff(want, header); diff != "" {
		t.Error(diff)
	}
	name := "sim-1-implement-0000"
	if want := "/internal/metrics/push?job=tatara-claude-code-wrapper&pod=" + name + "&run_id=" + name + "-0"; r.requests[0].target != want {
		t.Errorf("%s, want %s", r.requests[0].target, want)
	}
	if !deleted.Load() {
		t.Error("no DELETE")
	}
}

// TestReceiverAway: a receiver that is not there for the whole run leaves
// nothing acknowledged, and nothing in doubt.
func TestReceiverAway(t *testing.T) {
	t.Parallel()
	f := newFleet(t, func(c *Config) {
		// Nothing listens on port 1 of loopback.
		c.PushURLs, c.Pods, c.UntilAcknowledged, c.Patience = []string{"http://127.0.0.1:1/push"}, 4, true, 20*time.Millisecond
	})
	truth, report := run(t, f)
	if len(truth.Rows)+len(truth.Activity) != 0 || truth.Total().Cost.Valid {
		t.Errorf("%+v", truth)
	}
	if report.Unacknowledged != f.Lives() || report.Uncertain != 0 || report.Transport != report.Requests || report.Retried == 0 {
		t.Errorf("%+v", report)
	}
}

// TestUncertain: what was kept and not acknowledged is reported as a doubt.
func TestUncertain(t *testing.T) {
	t.Parallel()
	r, url := newReceiver(t)
	r.fault = sometimes(2, broken, cutAfter)
	_, report := run(t, newFleet(t, func(c *Config) { c.PushURLs = []string{url} }))
	if report.Uncertain == 0 || report.Uncertain != report.Unacknowledged {
		t.Errorf("%+v", report)
	}
}

// TestRefusedForGood: an answer that cannot change is not asked for again.
func TestRefusedForGood(t *testing.T) {
	t.Parallel()
	r, url := newReceiver(t)
	r.fault = func(*http.Request) fault { return refused }
	f := newFleet(t, func(c *Config) { c.PushURLs, c.UntilAcknowledged, c.Pods = []string{url}, true, 5 })
	_, report := run(t, f)
	if report.Retried != 0 || report.Unacknowledged != f.Lives() || report.Rejected[http.StatusBadRequest] != report.Planned {
		t.Errorf("%+v", report)
	}
}

// TestRepetitionsGoElsewhere: with one of two receivers away, the other gets
// the last snapshots.
func TestRepetitionsGoElsewhere(t *testing.T) {
	t.Parallel()
	_, url := newReceiver(t)
	f := newFleet(t, func(c *Config) {
		c.PushURLs, c.UntilAcknowledged = []string{"http://127.0.0.1:1/push", url}, true
	})
	truth, report := run(t, f)
	if report.Unacknowledged != 0 || report.Transport == 0 {
		t.Errorf("%+v", report)
	}
	if diff := cmp.Diff(f.Planned(time.Now()), truth); diff != "" {
		t.Error(diff)
	}
}

// TestHold: Before holds a request, After hears of it when it is done.
func TestHold(t *testing.T) {
	t.Parallel()
	r, url := newReceiver(t)
	held, release := make(chan struct{}), make(chan struct{})
	var n, after atomic.Int64
	f := newFleet(t, func(c *Config) {
		c.PushURLs, c.Pods, c.Concurrency = []string{url}, 3, 1
		c.Before = func(_ context.Context, _ Request) {
			if n.Add(1) == 5 {
				close(held)
				<-release
			}
		}
		c.After = func(Request, Outcome) { after.Add(1) }
	})
	done := make(chan Report)
	go func() {
		_, report, _ := f.Run(t.Context())
		done <- report
	}()
	<-held
	r.mu.Lock()
	got := len(r.requests)
	r.mu.Unlock()
	if got != 4 || after.Load() != 4 {
		t.Errorf("%d requests, %d outcomes", got, after.Load())
	}
	close(release)
	if report := <-done; int64(report.Requests) != after.Load() {
		t.Errorf("%+v, %d outcomes", report, after.Load())
	}
}

func TestGap(t *testing.T) {
	t.Parallel()
	_, url := newReceiver(t)
	const pause = 300 * time.Millisecond
	var mu sync.Mutex
	var times []time.Time
	f := newFleet(t, func(c *Config) {
		c.PushURLs, c.Gap, c.Pods = []string{url}, pause, 10
		c.Before = func(context.Context, Request) {
			mu.Lock()
			defer mu.Unlock()
			times = append(times, time.Now())
		}
	})
	run(t, f)
	slices.SortFunc(times, time.Time.Compare)
	// A busy machine has pauses of its own.
	third := len(times) / 3
	for i := third; i < 2*third; i++ {
		if times[i+1].Sub(times[i]) >= pause*9/10 {
			return
		}
	}
	t.Errorf("no pause of %s in the middle of %d requests", pause, len(times))
}

// TestInterrupted: the end of the context ends the run with the truth so far.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, shuffle := range []bool{false, true} {
		r, url := newReceiver(t)
		ctx, cancel := context.WithCancel(t.Context())
		var n atomic.Int64
		f := newFleet(t, func(c *Config) {
			c.PushURLs, c.Shuffle, c.Interval = []string{url}, shuffle, time.Millisecond
			c.After = func(Request, Outcome) {
				if n.Add(1) == 100 {
					cancel()
				}
			}
		})
		truth, report, err := f.Run(ctx)
		if !errors.Is(err, context.Canceled) || report.Requests < 100 || report.Requests > report.Planned/2 {
			t.Errorf("%v: %+v", err, report)
		}
		if report.Uncertain == 0 { // then what was kept is what was acknowledged
			if diff := cmp.Diff(r.sums(), sumsOf(truth)); diff != "" {
				t.Error(diff)
			}
		}
	}
}

// BenchmarkRun sends to a receiver that only answers: what is left is what the
// fleet itself can do, with the receiver's HTTP server on the same cores.
func BenchmarkRun(b *testing.B) {
	url := newSink(b)
	cfg := DefaultConfig()
	cfg.PushURLs, cfg.Interval = []string{url}, 0
	f, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	requests := 0
	for b.Loop() {
		_, report, err := f.Run(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		requests += report.Requests
	}
	b.ReportMetric(float64(requests)/b.Elapsed().Seconds(), "requests/s")
}
