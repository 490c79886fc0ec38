package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/szymonrychu/tatara-ledger/store"
)

// SweepConfig says how long things stay.
type SweepConfig struct {
	// Every is the time between sweeps. Default 30 s; rooms outlive their time
	// by up to as much.
	Every time.Duration
	// RoomTTL is the age at which a room is archived. Default 24 h; zero: never.
	RoomTTL time.Duration
	// RoomIdle is the time without a message after which a room is archived.
	// Default zero: never.
	RoomIdle time.Duration
	// KeepArchived is how long an archived room is kept, with its messages.
	// Default zero: for ever.
	KeepArchived time.Duration
	// KeepMessages is how long a message is kept. Default zero: as long as its
	// room. Who has not read it by then never will.
	KeepMessages time.Duration
	// KeepDeleted is how long the revisions of a deleted handoff are kept, and it
	// can be restored. Default zero: for ever.
	KeepDeleted time.Duration
	// Webhook says that there is one, whatever it takes. Default false: what one
	// was to be told is kept for a day.
	Webhook bool
	// KeepKeys is how long an Idempotency-Key makes a create happen once.
	// Default 24 h. Too low and a late repeat creates a second one.
	KeepKeys time.Duration
}

// DefaultSweepConfig is the configuration when nothing is said.
func DefaultSweepConfig() SweepConfig {
	return SweepConfig{Every: 30 * time.Second, RoomTTL: 24 * time.Hour, KeepKeys: 24 * time.Hour}
}

// Flags adds the flags.
func (c *SweepConfig) Flags(f *pflag.FlagSet) {
	f.DurationVar(&c.Every, "sweep-interval", c.Every, "how often rooms and what is kept are looked at: both outlive their time by up to as much")
	f.DurationVar(&c.RoomTTL, "room-ttl", c.RoomTTL, "age at which a room is archived (0: never)")
	f.DurationVar(&c.RoomIdle, "room-idle", c.RoomIdle, "time without a message after which a room is archived (0: never)")
	f.DurationVar(&c.KeepArchived, "keep-archived-rooms", c.KeepArchived, "how long an archived room is kept, with its messages (0: for ever)")
	f.DurationVar(&c.KeepMessages, "keep-messages", c.KeepMessages, "how long a message is kept (0: as long as its room)")
	f.DurationVar(&c.KeepDeleted, "keep-deleted-handoffs", c.KeepDeleted, "how long a deleted handoff can be restored (0: for ever)")
	f.DurationVar(&c.KeepKeys, "keep-idempotency-keys", c.KeepKeys, "how long an Idempotency-Key makes a create happen once")
}

// Validate reports every mistake at once.
func (c *SweepConfig) Validate() error {
	var errs []error
	if c.Every <= 0 {
		errs = append(errs, errors.New("--sweep-interval must be positive"))
	}
	for name, d := range map[string]time.Duration{
		"room-ttl": c.RoomTTL, "room-idle": c.RoomIdle, "keep-archived-rooms": c.KeepArchived, "keep-messages": c.KeepMessages, "keep-deleted-handoffs": c.KeepDeleted,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("--%s must not be negative", name))
		}
	}
	if c.KeepKeys < time.Minute {
		errs = append(errs, errors.New("--keep-idempotency-keys must be a minute or more: clients repeat within that time"))
	}
	return errors.Join(errs...)
}

// Sweeper archives rooms whose time is over and deletes what is kept no
// longer. Several replicas may sweep at once: each takes what no other has
// locked.
type Sweeper struct {
	cfg    SweepConfig
	store  *Store
	rooms  prometheus.Gauge
	swept  *prometheus.CounterVec
	failed prometheus.Counter
	// archived is called with the number of rooms that a sweep archived.
	archived func(int)
	log      *slog.Logger
}

// NewSweeper returns a sweeper. archived, for a counter of the caller's, is
// called with the number of rooms that each sweep archived.
func NewSweeper(cfg SweepConfig, s *Store, archived func(int), log *slog.Logger, reg prometheus.Registerer) *Sweeper {
	w := &Sweeper{
		cfg: cfg, store: s, archived: archived, log: log.With("component", "sweeper"),
		rooms: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "chat_active_rooms", Help: "Rooms that are not archived, as of the last sweep.",
		}),
		swept: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tatara_ledger_sweeper_rows_deleted_total", Help: "Rows that were kept no longer, by what they were.",
		}, []string{"of"}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tatara_ledger_sweeper_failures_total", Help: "Sweeps that ended early; the next one goes on.",
		}),
	}
	reg.MustRegister(w.rooms, w.swept, w.failed)
	return w
}

// Run sweeps until ctx ends.
func (w *Sweeper) Run(ctx context.Context) error {
	tick := time.NewTicker(w.cfg.Every)
	defer tick.Stop()
	for {
		if err := w.sweep(ctx); err != nil && ctx.Err() == nil {
			w.failed.Inc()
			w.log.Warn("a sweep ended early; rooms stay active, and old rows stay, until the next", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// sweepPatience bounds one sweep, so that a Postgres that hangs is noticed.
const sweepPatience = 5 * time.Minute

func (w *Sweeper) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sweepPatience)
	defer cancel()
	if err := w.archive(ctx); err != nil {
		return err
	}
	for _, purge := range []func(context.Context) error{w.purgeRooms, w.purgeMessages, w.purgeDeleted, w.purgeKeys, w.purgeTasks} {
		if err := purge(ctx); err != nil {
			return err
		}
	}
	active, err := w.store.ActiveRooms(ctx)
	if err == nil {
		w.rooms.Set(float64(active))
	}
	return err
}

// batch bounds what one transaction locks.
const batch = 100

func (w *Sweeper) archive(ctx context.Context) error {
	for _, rule := range []struct {
		after     time.Duration
		condition string
		notice    string
	}{
		{w.cfg.RoomTTL, `created_at < now() - $1::interval`, "This room was archived: it is older than " + w.cfg.RoomTTL.String() + "."},
		{w.cfg.RoomIdle, idle, "This room was archived: it had no message for " + w.cfg.RoomIdle.String() + "."},
	} {
		if rule.after == 0 {
			continue
		}
		for n := batch; n == batch; {
			rooms, err := w.archiveBatch(ctx, rule.condition, rule.after, rule.notice)
			if err != nil {
				return fmt.Errorf("archiving rooms: %w", err)
			}
			if n = len(rooms); n > 0 {
				w.store.hub.tell(rooms...)
				w.archived(n)
				w.log.Info("archived rooms whose time is over", "action", string(store.RoomExpired), "count", n)
			}
		}
	}
	return nil
}

// idle looks at the room's row only, which is judged again as it is when it is
// locked.
const idle = `greatest(created_at, last_message_at) < now() - $1::interval`

// archiveBatch archives rooms and writes the notice behind their last message.
func (w *Sweeper) archiveBatch(ctx context.Context, condition string, after time.Duration, notice string) ([]uuid.UUID, error) {
	rows, err := w.store.pool.Query(ctx, `
		WITH due AS (
			SELECT id FROM chat_rooms WHERE status = 'active' AND `+condition+`
			ORDER BY created_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED
		), archived AS (
			UPDATE chat_rooms AS r SET status = 'archived', archived_at = clock_timestamp(),
				last_message_id = nextval('chat_message_id'), last_message_at = clock_timestamp()
			FROM due WHERE r.id = due.id AND status = 'active' RETURNING r.id, archived_at, last_message_id
		), noticed AS (
			INSERT INTO chat_messages (room_id, id, send_id, author_name, kind, body, created_at)
			SELECT id, last_message_id, gen_random_uuid(), $3, $4, $5, archived_at FROM archived
		), told AS (
			INSERT INTO chat_outbox (event_id, at, action, actor, request_id, room_id)
			SELECT gen_random_uuid(), archived_at, $6, $3, '', id FROM archived
		)
		SELECT id FROM archived`,
		after, batch, store.SystemName, store.KindSystem, notice, string(store.RoomExpired))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// purgeRooms deletes archived rooms, their messages first: one statement for a
// large room would hold its transaction open for long.
func (w *Sweeper) purgeRooms(ctx context.Context) error {
	if w.cfg.KeepArchived == 0 {
		return nil
	}
	for {
		rows, err := w.store.pool.Query(ctx, `
			SELECT id FROM chat_rooms WHERE status = 'archived' AND archived_at < now() - $1::interval LIMIT $2`, w.cfg.KeepArchived, batch)
		if err != nil {
			return fmt.Errorf("looking for old rooms: %w", err)
		}
		rooms, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		if err != nil {
			return fmt.Errorf("looking for old rooms: %w", err)
		}
		for _, room := range rooms {
			if err := w.purgeRoom(ctx, room, time.Now().Add(24*time.Hour)); err != nil {
				return err
			}
			if err := w.purge(ctx, "room", `DELETE FROM chat_rooms WHERE id = $1 AND status = 'archived'`, room); err != nil {
				return err
			}
		}
		if len(rooms) < batch {
			return nil
		}
	}
}

// purgeRoom deletes the messages of a room that are older than a time.
func (w *Sweeper) purgeRoom(ctx context.Context, room uuid.UUID, before time.Time) error {
	return w.purge(ctx, "message", `
		DELETE FROM chat_messages WHERE room_id = $1 AND id = ANY (ARRAY(
			SELECT id FROM chat_messages WHERE room_id = $1 AND created_at < $2 ORDER BY id LIMIT 5000))`, room, before)
}

// purgeMessages looks at the oldest message of each room, since messages have
// no index by time.
func (w *Sweeper) purgeMessages(ctx context.Context) error {
	if w.cfg.KeepMessages == 0 {
		return nil
	}
	before := time.Now().Add(-w.cfg.KeepMessages)
	rows, err := w.store.pool.Query(ctx, `
		SELECT r.id FROM chat_rooms AS r
		CROSS JOIN LATERAL (SELECT created_at FROM chat_messages WHERE room_id = r.id ORDER BY id LIMIT 1) AS oldest
		WHERE oldest.created_at < $1`, before)
	if err != nil {
		return fmt.Errorf("looking for old messages: %w", err)
	}
	rooms, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return fmt.Errorf("looking for old messages: %w", err)
	}
	for _, room := range rooms {
		if err := w.purgeRoom(ctx, room, before); err != nil {
			return err
		}
	}
	return nil
}

// purgeDeleted drops the revisions that were there when a handoff was deleted.
// Those of a key that was written again stay: its own writes bound them.
func (w *Sweeper) purgeDeleted(ctx context.Context) error {
	if w.cfg.KeepDeleted == 0 {
		return nil
	}
	return w.purge(ctx, "deleted_handoff", `
		WITH old AS (
			SELECT delete_id, handoff_key, revision FROM chat_handoff_deletions WHERE deleted_at < now() - $1::interval LIMIT 500
		), dropped AS (
			DELETE FROM chat_handoff_revisions AS v USING old
			WHERE v.handoff_key = old.handoff_key AND v.revision <= old.revision
				AND NOT EXISTS (SELECT FROM chat_handoffs AS h WHERE h.handoff_key = v.handoff_key)
		)
		DELETE FROM chat_handoff_deletions USING old WHERE chat_handoff_deletions.delete_id = old.delete_id`, w.cfg.KeepDeleted)
}

func (w *Sweeper) purgeKeys(ctx context.Context) error {
	return w.purge(ctx, "idempotency_key", `
		DELETE FROM chat_idempotency WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM chat_idempotency WHERE created_at < now() - $1::interval LIMIT 5000))`, w.cfg.KeepKeys)
}

// purgeTasks deletes what no alert depends on any more: the ends of tasks that
// have been quiet for long, configurations that nobody has, and, without a
// webhook, what one that was configured before was still to be told.
func (w *Sweeper) purgeTasks(ctx context.Context) error {
	err := w.purge(ctx, "task_end", `
		DELETE FROM task_ends WHERE task = ANY (ARRAY(SELECT task FROM task_ends WHERE ended_at < now() - interval '90 days' LIMIT 5000))`)
	if err != nil {
		return err
	}
	err = w.purge(ctx, "alert_configuration", `DELETE FROM alert_configurations WHERE seen_at < now() - interval '90 days'`)
	if err != nil || w.cfg.Webhook {
		return err
	}
	return w.purge(ctx, "webhook_event", `
		DELETE FROM task_alert_outbox WHERE id = ANY (ARRAY(
			SELECT id FROM task_alert_outbox WHERE to_webhook AND NOT to_ledger AND at < now() - interval '1 day' LIMIT 5000))`)
}

// purge repeats a bounded DELETE until it finds nothing.
func (w *Sweeper) purge(ctx context.Context, of, sql string, args ...any) error {
	for {
		tag, err := w.store.pool.Exec(ctx, sql, args...)
		if err != nil {
			return fmt.Errorf("deleting what is kept no longer (%s): %w", of, err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		w.swept.WithLabelValues(of).Add(float64(tag.RowsAffected()))
	}
}
