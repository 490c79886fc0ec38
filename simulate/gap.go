package simulate

import (
	"context"
	"sync"
	"time"
)

// gap holds everybody for a while once so many have passed.
type gap struct {
	after int
	lasts time.Duration

	mu     sync.Mutex
	passed int
	until  time.Time
}

// begin counts a request that is about to be sent for the first time.
func (g *gap) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passed++
	if g.lasts > 0 && g.passed == g.after+1 {
		g.until = time.Now().Add(g.lasts)
	}
}

func (g *gap) wait(ctx context.Context) error {
	g.mu.Lock()
	until := g.until
	g.mu.Unlock()
	if until.IsZero() {
		return ctx.Err()
	}
	return sleep(ctx, time.Until(until))
}
