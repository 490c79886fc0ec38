package bridge

import (
	"context"
	"log/slog"
	"time"

	"github.com/szymonrychu/tatara-ledger/store/engine/chdb"
)

// killOn kills the query that carries tag when ctx ends before the returned
// function is called. The library can cancel a query only between two chunks
// of its result, so this is done from another connection. The query may not
// have been registered yet: hence the repetition.
func (s *Server) killOn(ctx context.Context, tag string) (ended func()) {
	over := make(chan struct{})
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		for delay := time.Duration(0); ; delay = 100 * time.Millisecond {
			select {
			case <-over:
				return
			case <-time.After(delay):
			}
			if err := s.kill(tag); err != nil {
				s.log.Warn("query of a client that went away could not be killed", slog.Any("error", err))
			}
		}
	})
	return func() {
		close(over)
		if !stop() {
			<-stopped
		}
	}
}

func (s *Server) kill(tag string) error {
	conn, err := s.engine.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	_, _, err = conn.Exec(chdb.Statement{
		SQL:    "KILL QUERY WHERE startsWith(Settings['log_comment'], {tag:String}) ASYNC",
		Format: "Null", Params: []chdb.Param{{Name: "tag", Value: tag}},
	})
	return err
}
