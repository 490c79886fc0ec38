package postgres

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/szymonrychu/tatara-ledger/store"
)

// Reads are noted in batches: a read must cost no write of its own.
const (
	readNotes    = 4096                   // that may wait; more are dropped and counted
	readEvery    = 200 * time.Millisecond // how long a note may wait
	readPatience = 5 * time.Second
)

// reads are the notes of reads that wait to be written.
type reads struct {
	pool    *pgxpool.Pool
	waiting chan store.Event
	metrics *metrics
	log     *slog.Logger
}

func newReads(pool *pgxpool.Pool, m *metrics, log *slog.Logger) *reads {
	return &reads{pool: pool, waiting: make(chan store.Event, readNotes), metrics: m, log: log}
}

// Recorded takes note of a read of a handoff, if there is room for it; it
// never waits. What it takes is lost if the process dies before it is written. It
// gives the event its id, and a time if it has none.
func (s *Store) Recorded(e store.Event) {
	var err error
	if e.ID, err = newID(); err != nil {
		s.metrics.lostReads.Inc()
		return
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	select {
	case s.reads.waiting <- e:
	default:
		s.metrics.lostReads.Inc()
	}
}

func (r *reads) run(ctx context.Context) error {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.write(ctx)
		case <-ctx.Done():
			r.write(context.WithoutCancel(ctx))
			return nil
		}
	}
}

// write writes what waits. What cannot be written is dropped: reads are best
// effort, and Postgres away means that handoffs cannot be read either.
func (r *reads) write(ctx context.Context) {
	events := make([]store.Event, 0, len(r.waiting))
	for len(r.waiting) > 0 {
		events = append(events, <-r.waiting)
	}
	if len(events) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	_, err := r.pool.CopyFrom(ctx, pgx.Identifier{"chat_outbox"},
		[]string{"event_id", "at", "action", "actor", "request_id", "project", "repo", "kind", "handoff_key", "revision", "age_ms", "bytes"},
		pgx.CopyFromSlice(len(events), func(i int) ([]any, error) {
			e := &events[i]
			return []any{e.ID, e.At, string(e.Action), e.Actor, e.RequestID, e.Project, e.Repo, e.Kind, e.Key, e.Revision, e.Age.Milliseconds(), e.Bytes}, nil
		}))
	if err != nil {
		r.metrics.lostReads.Add(float64(len(events)))
		r.log.Warn("reads of handoffs are missing in the analytics", "reads", len(events), "error", err)
	}
}
