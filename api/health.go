package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
)

// healthz says that the process serves.
func (s *server) healthz(w http.ResponseWriter, _ *http.Request) error {
	envelope.JSON(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

// readyz says whether everything that the service needs answers. Facts are
// taken all the same while ClickHouse is away: the journal keeps them.
func (s *server) readyz(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()
	// At once: one that hangs must not make the others late.
	errs := make([]error, len(s.ready))
	var all sync.WaitGroup
	for i, c := range s.ready {
		all.Go(func() { errs[i] = c.Run(ctx) })
	}
	all.Wait()
	status, checks := http.StatusOK, make(map[string]string, len(s.ready))
	for i, c := range s.ready {
		checks[c.Name] = "ok"
		if errs[i] != nil {
			status, checks[c.Name] = http.StatusServiceUnavailable, "away"
			s.log.Warn("not ready", "check", c.Name, "error", errs[i])
		}
	}
	envelope.JSON(w, status, map[string]any{"checks": checks})
	return nil
}
