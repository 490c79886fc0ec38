package deliver

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// running is a Sender in Run, with what it logged and counted.
type running struct {
	*Sender
	reg  *prometheus.Registry
	log  *buffer
	stop func() // returns when Run has
}

func start(t *testing.T, cfg Config) *running {
	t.Helper()
	r := &running{reg: prometheus.NewRegistry(), log: &buffer{}}
	var err error
	r.Sender, err = New(cfg, slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})), r.reg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	r.stop = func() { cancel(); <-done }
	t.Cleanup(r.stop)
	return r
}

func configOf(urls string) Config {
	cfg := DefaultConfig()
	cfg.Alertmanagers = urls
	return cfg
}

// value is a series' value; -1 if there is none.
func value(t *testing.T, reg prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "tatara_ledger_alerts_"+name && matches(m.Label, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return -1
}

func matches(got []*dto.LabelPair, want []string) bool {
	var values []string
	for _, l := range got {
		values = append(values, l.GetName()+"="+l.GetValue())
	}
	return fmt.Sprint(values) == fmt.Sprint(want)
}

// eventually waits for what takes as long as it takes.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited a minute for: %s", what)
		}
	}
}

var began = time.Date(2026, 5, 4, 3, 2, 1, 123e6, time.UTC)

// firing is an alert of one task.
func firing(task int) Alert {
	return Alert{
		Labels:       map[string]string{"alertname": "TaskCostCeiling", "task": strconv.Itoa(task), "threshold": "80"},
		Annotations:  map[string]string{"summary": "Task " + strconv.Itoa(task) + " cost 8 of 10 dollars"},
		StartsAt:     began,
		EndsAt:       time.Now().Add(time.Hour),
		GeneratorURL: "https://ledger.example/v1/tasks/" + strconv.Itoa(task),
	}
}

func resolved(task int) Alert {
	a := firing(task)
	a.EndsAt = time.Now().Add(-time.Second)
	return a
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
