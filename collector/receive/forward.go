package receive

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
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
	}
}

// Send queues a copy. It never blocks. The body is copied.
func (f *Forwarder) Send(method, query string, h http.Header, body []byte) {
	if f == nil {
		return
	}
	select {
	case f.queue <- forwarded{method, query, h.Get("Content-Type"), bytes.Clone(body)}:
	default:
		f.count("dropped")
	}
}

func (f *Forwarder) count(result string) { f.sent.WithLabelValues(result).Inc() }

// Run sends until ctx ends.
func (f *Forwarder) Run(ctx context.Context) error {
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-f.queue:
			err := f.send(ctx, p)
			if err != nil && !failing {
				f.log.Warn("forwarding pushes does not work; the ledger has them all", "error", err)
			}
			failing = err != nil
		}
	}
}

func (f *Forwarder) send(ctx context.Context, p forwarded) error {
	req, err := http.NewRequestWithContext(ctx, p.method, f.url+"?"+p.query, bytes.NewReader(p.body))
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
