package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/collector/pricing"
)

// Fleet is a planned fleet. It never changes: it may run several times, at
// once too, and always sends the same.
type Fleet struct {
	cfg  Config
	book *pricing.Book
	pods []*pod

	// decorate lets a test mark requests with what the wire does not say.
	decorate func(*http.Request, Request)
}

// New plans a fleet. It refuses a configuration that is wrong, and models whose
// prices would make the sum of many charges differ from the price of the sum.
func New(cfg Config) (*Fleet, error) {
	f, err := emptyFleet(cfg)
	if err != nil {
		return nil, err
	}
	f.pods = newPlan(&f.cfg)
	return f, nil
}

// emptyFleet is a fleet without pods.
func emptyFleet(cfg Config) (*Fleet, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("checking the fleet: %w", err)
	}
	f := &Fleet{cfg: cfg, book: cfg.Prices}
	if f.book == nil {
		var err error
		if f.book, err = pricing.Load("", nil); err != nil {
			return nil, fmt.Errorf("loading the price book: %w", err)
		}
	}
	for _, m := range cfg.Models {
		if err := additive(f.book, m); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Requests is how many requests the fleet sends, not counting repetitions.
func (f *Fleet) Requests() int {
	n := 0
	for _, p := range f.pods {
		n += len(p.steps)
	}
	return n
}

// Lives is how many processes the fleet consists of.
func (f *Fleet) Lives() int {
	n := 0
	for _, p := range f.pods {
		n += len(p.lives)
	}
	return n
}

// Planned is the truth of a run in which every life is acknowledged, at the
// prices of a time.
func (f *Fleet) Planned(at time.Time) Truth {
	b := newTruthBuilder(f, at)
	for _, p := range f.pods {
		for i := range p.lives {
			b.add(p, i, len(p.lives[i].pushes)-1)
		}
	}
	return b.truth()
}

// ErrPriceChanged is returned when a price of the fleet's models changed while
// it ran: which requests came before cannot be known.
var ErrPriceChanged = errors.New("a price changed during the run")

// Run sends the fleet and returns what was acknowledged. It ends early, with
// the truth so far, when ctx does. That receivers refuse or are away is not an
// error: see [Report].
func (f *Fleet) Run(ctx context.Context) (Truth, Report, error) {
	r := newRunning(f)
	defer r.client.CloseIdleConnections()
	start := time.Now()
	var err error
	if f.cfg.Shuffle {
		err = r.shuffled(ctx)
	} else {
		err = r.steady(ctx)
	}
	end := time.Now()

	b := newTruthBuilder(f, start)
	r.report.Seconds = end.Sub(start).Seconds()
	for _, p := range r.pods {
		for i, push := range p.acked {
			b.add(p.pod, i, push)
			r.report.life(&p.lives[i], push, p.unsure[i])
		}
	}
	if err == nil {
		err = samePrices(f.book, f.cfg.Models, start, end)
	}
	return b.truth(), r.report, err
}

// running is one run of a fleet.
type running struct {
	*Fleet
	client *http.Client
	gap    gap
	pods   []*runningPod

	mu     sync.Mutex
	report Report
}

// runningPod is driven by one goroutine at a time.
type runningPod struct {
	*pod
	index, next int
	processes   []*process // by life; nil before its first and after its last push
	// acked and unsure are, by life, the last push that was acknowledged, and
	// the last that failed in a way that leaves open whether it was kept; -1
	// is none.
	acked, unsure []int
	held          map[step][]byte // bodies of copies to come
}

func newRunning(f *Fleet) *running {
	r := &running{Fleet: f, client: newClient(&f.cfg)}
	r.report = Report{Planned: f.Requests(), Rejected: map[int]int{}}
	r.gap.after, r.gap.lasts = r.report.Planned/2, f.cfg.Gap
	for i, p := range f.pods {
		none := slices.Repeat([]int{-1}, len(p.lives))
		r.pods = append(r.pods, &runningPod{
			pod: p, index: i, processes: make([]*process, len(p.lives)),
			acked: none, unsure: slices.Clone(none), held: map[step][]byte{},
		})
	}
	return r
}

// steady runs so many pods at once, each to its end.
func (r *running) steady(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(r.cfg.Concurrency)
	for _, p := range r.pods {
		g.Go(func() error {
			// Real pods do not push in step.
			offset := r.cfg.Interval * time.Duration(p.index%r.cfg.Concurrency) / time.Duration(r.cfg.Concurrency)
			if err := sleep(ctx, offset); err != nil {
				return err
			}
			for p.next < len(p.steps) {
				if p.next > 0 && !p.steps[p.next].copy {
					if err := sleep(ctx, r.cfg.Interval); err != nil {
						return err
					}
				}
				if err := r.step(ctx, p); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// shuffled deals the steps of all pods at random. At the pace of the dealer
// each pod pushes once per interval on average.
func (r *running) shuffled(ctx context.Context) error {
	var order []*runningPod
	for _, p := range r.pods {
		order = append(order, slices.Repeat([]*runningPod{p}, len(p.steps))...)
	}
	rand.New(rand.NewPCG(r.cfg.Seed, 0xdea1)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })

	busy := make([]sync.Mutex, len(r.pods))
	pace, due := r.cfg.Interval/time.Duration(len(r.pods)), time.Now()
	g, groupCtx := errgroup.WithContext(ctx)
	g.SetLimit(r.cfg.Concurrency)
	for _, p := range order {
		if sleep(groupCtx, time.Until(due)) != nil {
			break
		}
		due = due.Add(pace)
		busy[p.index].Lock()
		g.Go(func() error {
			defer busy[p.index].Unlock()
			return r.step(groupCtx, p)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// step sends the next request of a pod. It returns an error only if the run
// cannot go on.
func (r *running) step(ctx context.Context, p *runningPod) error {
	s := p.steps[p.next]
	q := Request{
		Method: http.MethodPost, Pod: p.name, Run: p.run, Life: s.life, Push: s.push, Attempt: 1, Last: s.last, Copy: s.copy,
	}
	q.URL = pushURL(r.cfg.PushURLs[(p.index+p.next)%len(r.cfg.PushURLs)], p.name, p.run)
	p.next++
	r.gap.begin()
	switch {
	case s.push == exit:
		q.Method = http.MethodDelete
		r.once(ctx, q)
	case s.copy:
		original := s
		original.copy = false
		q.Body = p.held[original]
		delete(p.held, original)
		p.note(s, r.once(ctx, q))
	default:
		var err error
		if q.Body, err = p.snapshot(s); err != nil {
			return err
		}
		if r.cfg.Duplicate {
			p.held[s] = q.Body
		}
		p.note(s, r.push(ctx, q, p.processes[s.life]))
		if s.last {
			p.processes[s.life] = nil
		}
	}
	return context.Cause(ctx)
}

func (r *running) push(ctx context.Context, q Request, from *process) Outcome {
	o := r.once(ctx, q)
	from.pushed(o.result())
	if q.Last && r.cfg.UntilAcknowledged {
		o = r.repeat(ctx, q, o)
	}
	return o
}

// otherURL is the receiver for a repetition: the next after that of the first
// attempt.
func (r *running) otherURL(first string, q Request) string {
	urls := r.cfg.PushURLs
	at := slices.IndexFunc(urls, func(u string) bool { return pushURL(u, q.Pod, q.Run) == first })
	return pushURL(urls[(at+q.Attempt-1)%len(urls)], q.Pod, q.Run)
}

func (p *runningPod) snapshot(s step) ([]byte, error) {
	l := &p.lives[s.life]
	if p.processes[s.life] == nil {
		p.processes[s.life] = newProcess(p.pod)
	}
	p.processes[s.life].advance(l.turns, l.pushes[s.push])
	return p.processes[s.life].snapshot()
}

// note remembers what became of a push.
func (p *runningPod) note(s step, o Outcome) {
	switch {
	case o.Acknowledged():
		p.acked[s.life] = max(p.acked[s.life], s.push)
	case o.maybeKept():
		p.unsure[s.life] = max(p.unsure[s.life], s.push)
	}
}
