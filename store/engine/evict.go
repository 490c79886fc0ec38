package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"time"
)

// evict ends what an earlier life of ours left behind on the same data: process
// pid, if the text of its command line contains every one of the marks. A process
// that lacks one is a stranger to whom the number was given since, and is left
// alone. Most often the old child is already on its way out, so it gets a
// moment before it is signalled.
//
// The caller holds the lock of the data folder: no rightful owner is alive.
func evict(ctx context.Context, log *slog.Logger, pid int, steps []step, marks ...string) error {
	if !runs(pid, marks) {
		return nil
	}
	log.InfoContext(ctx, "waiting for the engine of an earlier run to end", "pid", pid)
	steps = append([]step{{0, 3 * time.Second}}, steps...)
	for _, s := range steps {
		err := syscall.Kill(pid, s.signal)
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("ending process %d, left over from an earlier run: %w", pid, err)
		}
		for deadline := time.Now().Add(s.wait); time.Now().Before(deadline); {
			if !runs(pid, marks) {
				return nil
			}
			if err := sleep(ctx, 10*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("ending process %d, left over from an earlier run: still there after every signal", pid)
}

func runs(pid int, marks []string) bool {
	if pid <= 1 {
		return false
	}
	line := strings.Join(commandLine(pid), " ")
	if line == "" {
		return false
	}
	for _, mark := range marks {
		if !strings.Contains(line, mark) {
			return false
		}
	}
	return true
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
