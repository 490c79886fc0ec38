package journal

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestOneProcessHoldsAJournal(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig(t.TempDir())
	j, err := Open(cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry()); !errors.Is(err, ErrInUse) {
		t.Errorf("a second Open gave %v, want ErrInUse", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j, err = Open(cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
