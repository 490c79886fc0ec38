package deliver

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// flushTime is how long a stop waits for what is queued.
const flushTime = 2 * time.Second

// Sender delivers to all Alertmanagers of a configuration. Its methods are safe
// for concurrent use.
type Sender struct {
	receivers []*receiver
	webhook   *Webhook
	recovered chan struct{}
}

// New reads the files of a configuration and refuses what is wrong in either.
// It connects to nothing.
func New(cfg Config, log *slog.Logger, reg prometheus.Registerer) (*Sender, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	listed, err := cfg.listed()
	if err != nil {
		return nil, err
	}
	filed, err := cfg.filed()
	if err != nil {
		return nil, err
	}
	m := newMetrics(reg)
	s := &Sender{recovered: make(chan struct{}, 1)}
	known := map[string]bool{}
	for _, t := range append(listed, filed...) {
		if known[t.name()] {
			return nil, fmt.Errorf("--alertmanagers and --alertmanager-config name %s twice: give each Alertmanager once", t.name())
		}
		known[t.name()] = true
		manager, err := newAlertmanager(&t)
		if err != nil {
			return nil, fmt.Errorf("the HTTP client of Alertmanager %s: %w", t.name(), err)
		}
		rm := m.alertmanager(t.name())
		s.receivers = append(s.receivers, &receiver{
			log: log.With("receiver", t.name()), metrics: rm, manager: manager,
			queue: newQueue(cfg.Queue, rm.length), recovered: s.tellRecovered,
		})
	}
	if cfg.Webhook != "" {
		if s.webhook, err = newWebhook(&cfg, m.webhook(webhookName)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Run delivers what is sent until ctx is done, and then for up to two seconds
// what is left. It must be called once. It returns nil; what is sent later is
// counted as dropped.
func (s *Sender) Run(ctx context.Context) error {
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var wg sync.WaitGroup
	for _, r := range s.receivers {
		wg.Go(func() { r.run(ctx, hard) })
	}
	<-ctx.Done()
	timer := time.AfterFunc(flushTime, cancel)
	defer timer.Stop()
	wg.Wait()
	return nil
}

// Send queues alerts for every Alertmanager. It does not block and may be called
// before Run. Of an alert that still waits only the newer state is kept.
func (s *Sender) Send(alerts ...Alert) {
	for _, r := range s.receivers {
		r.add(alerts)
	}
}

// Failing reports whether the last request to some Alertmanager failed and not
// all that was sent since has reached it.
func (s *Sender) Failing() bool {
	for _, r := range s.receivers {
		if r.failing.Load() {
			return true
		}
	}
	return false
}

// Recovered holds a value after an Alertmanager that was failing took all that
// waited for it. It may have restarted, and then knows only that: send all that
// fires.
func (s *Sender) Recovered() <-chan struct{} { return s.recovered }

func (s *Sender) tellRecovered() {
	select {
	case s.recovered <- struct{}{}:
	default:
	}
}

// Webhook is the webhook of the configuration, nil if it has none.
func (s *Sender) Webhook() *Webhook { return s.webhook }
