package bridge

import (
	"context"
	"time"
)

// admission bounds how many requests use the engine at once.
type admission struct {
	places chan struct{}
	wait   time.Duration
}

func newAdmission(places int, wait time.Duration) *admission {
	return &admission{places: make(chan struct{}, places), wait: wait}
}

// enter waits for a place, which leave gives back.
func (a *admission) enter(ctx context.Context) error {
	select {
	case a.places <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(a.wait)
	defer timer.Stop()
	select {
	case a.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return exceptionf(codeCancelled, "the request ended while it waited for its turn")
	case <-timer.C:
		return exceptionf(codeTooManyQueries, "Too many simultaneous queries. Maximum: %d; waited %s", cap(a.places), a.wait)
	}
}

func (a *admission) leave() { <-a.places }
