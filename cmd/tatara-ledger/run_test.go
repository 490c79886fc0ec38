package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

func TestAwait(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := service{log: newLogger(&out, slog.LevelWarn)}
	var fails errgroup.Group
	want := errors.New("broken")
	fails.Go(func() error { return want })
	if err := s.await(&fails, time.Minute); !errors.Is(err, want) || out.Len() > 0 {
		t.Errorf("a layer that failed: %v, %s", err, &out)
	}
	var hangs errgroup.Group
	end := make(chan struct{})
	defer close(end)
	hangs.Go(func() error { <-end; return nil })
	if err := s.await(&hangs, time.Millisecond); err != nil || !strings.Contains(out.String(), "stays in the journal") {
		t.Errorf("a layer that hangs: %v, %s", err, &out)
	}
}
