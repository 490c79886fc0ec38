package api

import (
	"context"
	"errors"
	"net"
	"net/http"
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
	status, checks := http.StatusOK, map[string]string{}
	for _, c := range s.ready {
		checks[c.Name] = "ok"
		if err := c.Run(ctx); err != nil {
			status, checks[c.Name] = http.StatusServiceUnavailable, "away"
			s.log.Warn("not ready", "check", c.Name, "error", err)
		}
	}
	envelope.JSON(w, status, map[string]any{"checks": checks})
	return nil
}

// unavailable turns an error of reaching the store into a 503.
func (s *server) unavailable(err error) error {
	var network net.Error
	if errors.As(err, &network) {
		s.log.Warn("the store does not answer", "error", err)
		return &envelope.Error{Status: http.StatusServiceUnavailable, Message: "the store does not answer", Retry: 5 * time.Second}
	}
	return err
}
