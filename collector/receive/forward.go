package receive

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Forwarder sends copies of pushes to the operator's own receiver, in order,
// from a bounded queue: a slow or dead operator costs copies, never a push.
type Forwarder struct {
	url    string
	queue  chan forwarded
	client *http.Client
	log    *slog.Logger
	sent   *prometheus.CounterVec

	mu      sync.Mutex
	free    int64 // bytes that may still be queued
	stopped bool
}

type forwarded struct {
	method, query, contentType string
	body                       []byte
}

// NewForwarder returns nil if nothing is to be forwarded; a nil Forwarder
// forwards nothing.
func NewForwarder(cfg Config, log *slog.Logger, reg prometheus.Registerer) *Forwarder {
	if cfg.ForwardTo == "" {
		return nil
	}
	sent := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tatara_ledger_receive_forwarded_pushes_total",
		Help: "Copies of pushes for the operator's own receiver, by result.",
	}, []string{"result"})
	reg.MustRegister(sent)
	return &Forwarder{
		url: cfg.ForwardTo, queue: make(chan forwarded, cfg.ForwardQueue),
		client: &http.Client{Timeout: 10 * time.Second},
		log:    log.With("component", "forwarder"),
		sent:   sent,
		free:   cfg.ForwardBytes,
	}
}

// Send queues a copy, or drops it if the queue is full or no longer read. It
// never waits for the operator. The body is copied.
func (f *Forwarder) Send(method, query string, h http.Header, body []byte) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	size := int64(len(body))
	if f.stopped || size > f.free || len(f.queue) == cap(f.queue) {
		f.count("dropped")
		return
	}
	// It does not block: only Send fills the queue, one at a time.
	f.queue <- forwarded{method, query, h.Get("Content-Type"), bytes.Clone(body)}
	f.free -= size
}

// stop counts the copies that are left as dropped, and so every later one.
func (f *Forwarder) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	if len(f.queue) > 0 {
		f.log.Warn("copies of pushes were not forwarded before the stop; the ledger has them all", "copies", len(f.queue))
	}
	for len(f.queue) > 0 {
		<-f.queue
		f.count("dropped")
	}
}

func (f *Forwarder) count(result string) { f.sent.WithLabelValues(result).Inc() }

// Run sends until ctx ends.
func (f *Forwarder) Run(ctx context.Context) error {
	defer f.stop()
	failing := false
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return nil
		case p := <-f.queue:
			f.mu.Lock()
			f.free += int64(len(p.body))
			f.mu.Unlock()
			err := f.send(ctx, p)
			if err != nil && !failing {
				f.log.Warn("forwarding pushes does not work; the ledger has them all", "error", err)
			}
			failing = err != nil
		}
	}
	return nil
}

// target is the operator's URL with the query of a push. The query is not
// written anew: a copy is the push byte for byte.
func (f *Forwarder) target(query string) (string, error) {
	u, err := url.Parse(f.url)
	if err != nil {
		return "", err
	}
	if u.RawQuery != "" && query != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += query
	return u.String(), nil
}

func (f *Forwarder) send(ctx context.Context, p forwarded) error {
	to, err := f.target(p.query)
	if err != nil {
		f.count("failed")
		return err
	}
	req, err := http.NewRequestWithContext(ctx, p.method, to, bytes.NewReader(p.body))
	if err != nil {
		f.count("failed")
		return err
	}
	if p.contentType != "" {
		req.Header.Set("Content-Type", p.contentType)
	}
	resp, err := f.client.Do(req)
	if err != nil {
		f.count("failed")
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 4096))
	if resp.StatusCode >= http.StatusMultipleChoices {
		f.count("rejected")
		return nil
	}
	f.count("sent")
	return nil
}
