package clickhouse

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// query runs a query and hands each row to scan; it owns the rows and checks
// that they came whole.
func (s *Store) query(ctx context.Context, what, sql string, args []any, scan func(driver.Rows) error) error {
	rows, err := s.conn.Query(ctx, sql, args...)
	if err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return fmt.Errorf("reading %s: %w", what, err)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	return nil
}

// SampledRuns returns those of the runs that have samples, in order.
func (s *Store) SampledRuns(ctx context.Context, runs []string) ([]string, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	const q = `SELECT DISTINCT run FROM samples WHERE run IN (@runs) ORDER BY run`
	var out []string
	err := s.query(ctx, "sampled runs", q, []any{clickhouse.Named("runs", runs)}, func(rows driver.Rows) error {
		var run string
		err := rows.Scan(&run)
		out = append(out, run)
		return err
	})
	return out, err
}

// SampleHeads returns the samples of the runs without their counters, each
// once with its earliest arrival.
func (s *Store) SampleHeads(ctx context.Context, runs []string) ([]usage.Sample, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	const q = `SELECT run, id, min(pod), min(arrived), any(pushes) FROM samples WHERE run IN (@runs) GROUP BY run, id`
	var out []usage.Sample
	err := s.query(ctx, "samples", q, []any{clickhouse.Named("runs", runs)}, func(rows driver.Rows) error {
		var (
			sample usage.Sample
			id     uuid.UUID
		)
		err := rows.Scan(&sample.Run, &id, &sample.Pod, &sample.Arrived, &sample.Pushes)
		sample.ID, sample.Arrived = usage.ID(id), sample.Arrived.UTC()
		out = append(out, sample)
		return err
	})
	return out, err
}

// Counters hands the counters of samples to use. They may be shared between
// samples: nobody may write to them.
func (s *Store) Counters(ctx context.Context, samples []usage.Sample, use func(usage.ID, usage.Counters)) error {
	// Most pushes repeat the counters of the one before: decode each text once.
	decoded := map[string]usage.Counters{}
	const q = `SELECT id, any(counters) FROM samples WHERE run IN (@runs) AND id IN (@ids) GROUP BY id`
	for part := range slices.Chunk(samples, countersPerQuery) {
		args := []any{clickhouse.Named("runs", runsOf(part)), clickhouse.Named("ids", idsOf(part))}
		err := s.query(ctx, "counters", q, args, func(rows driver.Rows) error {
			var (
				id   uuid.UUID
				text string
			)
			if err := rows.Scan(&id, &text); err != nil {
				return err
			}
			c, ok := decoded[text]
			if !ok {
				if err := json.Unmarshal([]byte(text), &c); err != nil {
					return fmt.Errorf("decoding the counters of sample %s: %w", id, err)
				}
				decoded[text] = c
			}
			use(usage.ID(id), c)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// countersPerQuery keeps a query's text, at 39 bytes an id, small.
const countersPerQuery = 5000

func runsOf(samples []usage.Sample) []string {
	out := make([]string, len(samples))
	for i := range samples {
		out[i] = samples[i].Run
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func idsOf(samples []usage.Sample) []uuid.UUID {
	out := make([]uuid.UUID, len(samples))
	for i := range samples {
		out[i] = uuid.UUID(samples[i].ID)
	}
	return out
}

// Ends returns the announced exits of the runs, by run.
func (s *Store) Ends(ctx context.Context, runs []string) (map[string][]usage.End, error) {
	out := map[string][]usage.End{}
	if len(runs) == 0 {
		return out, nil
	}
	const q = `SELECT run, pod, arrived FROM ends WHERE run IN (@runs)`
	err := s.query(ctx, "ends", q, []any{clickhouse.Named("runs", runs)}, func(rows driver.Rows) error {
		var e usage.End
		if err := rows.Scan(&e.Run, &e.Pod, &e.Arrived); err != nil {
			return err
		}
		e.Arrived = e.Arrived.UTC()
		out[e.Run] = append(out[e.Run], e)
		return nil
	})
	return out, err
}

// Links returns every link ever given of the runs, and of the sessions.
func (s *Store) Links(ctx context.Context, runs, sessions []string) ([]usage.Link, error) {
	if len(runs) == 0 && len(sessions) == 0 {
		return nil, nil
	}
	return s.links(ctx, "WHERE run IN (@runs) OR (session != '' AND session IN (@sessions))", named(runs, sessions)...)
}

func (s *Store) links(ctx context.Context, where string, args ...any) ([]usage.Link, error) {
	const q = `SELECT run, pod, task, session, issue, handoff_key, kind, repo, project, effort, arrived FROM links `
	var out []usage.Link
	err := s.query(ctx, "links", q+where, args, func(rows driver.Rows) error {
		var l usage.Link
		err := rows.Scan(&l.Run, &l.Pod, &l.Task, &l.Session, &l.Issue, &l.HandoffKey, &l.Kind, &l.Repo, &l.Project, &l.Effort, &l.Arrived)
		l.Arrived = l.Arrived.UTC()
		out = append(out, l)
		return err
	})
	return out, err
}

// CalledModels returns the models of the posted calls that name the runs, and
// of those that name only the sessions. Calls that lost their id do not count.
func (s *Store) CalledModels(ctx context.Context, runs, sessions []string) (byRun, bySession map[string][]string, err error) {
	byRun, bySession = map[string][]string{}, map[string][]string{}
	if len(runs) == 0 {
		return byRun, bySession, nil
	}
	const q = `SELECT DISTINCT run, if(run = '', session, ''), model FROM events WHERE (` + namesRunOrSession + `) AND ` + notLost
	err = s.query(ctx, "called models", q, named(runs, sessions), func(rows driver.Rows) error {
		var run, session, model string
		if err := rows.Scan(&run, &session, &model); err != nil {
			return err
		}
		if run != "" {
			byRun[run] = append(byRun[run], model)
		} else {
			bySession[session] = append(bySession[session], model)
		}
		return nil
	})
	return byRun, bySession, err
}

const (
	namesRunOrSession = `run IN (@runs) OR (run = '' AND session != '' AND session IN (@sessions))`
	notLost           = `(id, content) NOT IN (SELECT id, content FROM disputes FINAL WHERE lost)`
)

// named binds runs and sessions; an empty list needs a member to be typed.
func named(runs, sessions []string) []any {
	none := func(s []string) []string {
		if len(s) == 0 {
			return []string{""}
		}
		return s
	}
	return []any{clickhouse.Named("runs", none(runs)), clickhouse.Named("sessions", none(sessions))}
}

const eventSelect = `SELECT id, content, source_id, feed, time, arrived, project, repo, kind, task, issue, run, session,
	model, effort, agent, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_5m_tokens,
	cache_write_1h_tokens, web_searches, speed, batch, inference_geo, reported_nano, duration_ms FROM events `

// Contested returns the ids of a batch's events that came with other content
// too: at since or later, or ever before if there was a dispute about them.
func (s *Store) Contested(ctx context.Context, batch uint64, since time.Time) ([]usage.ID, error) {
	const q = `SELECT id FROM events
			WHERE arrived >= @since AND id IN (SELECT id FROM events WHERE batch_id = @batch)
			GROUP BY id HAVING min(content) != max(content)
		UNION DISTINCT
		SELECT id FROM disputes WHERE id IN (SELECT id FROM events WHERE batch_id = @batch)`
	return s.ids(ctx, q, clickhouse.Named("batch", batch), clickhouse.Named("since", since))
}

// ContestedOf returns the ids with a dispute among the events that name the
// runs, or only the sessions.
func (s *Store) ContestedOf(ctx context.Context, runs, sessions []string) ([]usage.ID, error) {
	const q = `SELECT DISTINCT id FROM disputes WHERE id IN (SELECT id FROM events WHERE ` + namesRunOrSession + `)`
	return s.ids(ctx, q, named(runs, sessions)...)
}

func (s *Store) ids(ctx context.Context, q string, args ...any) ([]usage.ID, error) {
	var out []usage.ID
	err := s.query(ctx, "contested ids", q, args, func(rows driver.Rows) error {
		var id uuid.UUID
		err := rows.Scan(&id)
		out = append(out, usage.ID(id))
		return err
	})
	return out, err
}

// EventsByID returns every event under the ids. An event may appear more than
// once.
func (s *Store) EventsByID(ctx context.Context, ids []usage.ID) ([]usage.Event, error) {
	var out []usage.Event
	for part := range slices.Chunk(ids, countersPerQuery) {
		list := make([]uuid.UUID, len(part))
		for i, id := range part {
			list[i] = uuid.UUID(id)
		}
		args := []any{clickhouse.Named("ids", list)}
		err := s.query(ctx, "events", eventSelect+"WHERE id IN (@ids)", args, func(rows driver.Rows) error {
			e, err := scanEvent(rows)
			out = append(out, e)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Dispute is the standing of one event under a contested id.
type Dispute struct {
	ID, Content usage.ID
	Lost        bool
}

// AppendDisputes stores how disputes stand.
func (s *Store) AppendDisputes(ctx context.Context, version uint64, disputes []Dispute) error {
	return insert(ctx, s, "disputes", []column[Dispute]{
		id("id", func(d *Dispute) usage.ID { return d.ID }),
		id("content", func(d *Dispute) usage.ID { return d.Content }),
		each("lost", func(d *Dispute) uint8 { return asFlag(d.Lost) }),
		constant[Dispute]("version", version),
	}, disputes)
}

// Events hands the events that name the runs, or only the sessions, to use, in
// portions. An event may appear more than once.
func (s *Store) Events(ctx context.Context, runs, sessions []string, use func([]usage.Event) error) error {
	if len(runs) == 0 && len(sessions) == 0 {
		return nil
	}
	return s.eventPortions(ctx, "WHERE "+namesRunOrSession, named(runs, sessions), use)
}

// EventsBetween is like [Store.Events] for a range of event times.
func (s *Store) EventsBetween(ctx context.Context, from, to time.Time, use func([]usage.Event) error) error {
	const where = `WHERE time >= @from AND time < @to ORDER BY id`
	return s.eventPortions(ctx, where, []any{clickhouse.Named("from", from), clickhouse.Named("to", to)}, use)
}

// portion is how many events are held at once: about 20 MB.
const portion = 50_000

func (s *Store) eventPortions(ctx context.Context, where string, args []any, use func([]usage.Event) error) error {
	var held []usage.Event
	err := s.query(ctx, "events", eventSelect+where, args, func(rows driver.Rows) error {
		e, err := scanEvent(rows)
		if err != nil {
			return err
		}
		if held = append(held, e); len(held) < portion {
			return nil
		}
		err = use(held)
		held = nil
		return err
	})
	if err != nil || len(held) == 0 {
		return err
	}
	return use(held)
}

func scanEvent(rows driver.Rows) (usage.Event, error) {
	var (
		e           usage.Event
		id, content uuid.UUID
		feed        string
		reported    *int64
		durationMS  uint64
	)
	l, t := &e.Labels, &e.Tokens
	err := rows.Scan(&id, &content, &e.SourceID, &feed, &e.Time, &e.Arrived,
		&l.Project, &l.Repo, &l.Kind, &l.Task, &l.Issue, &l.Run, &l.Session, &l.Model, &l.Effort, &l.Agent,
		&t.Input, &t.Output, &t.CacheRead, &t.CacheWrite, &t.CacheWrite5m, &t.CacheWrite1h,
		&e.WebSearches, &e.Speed, &e.Batch, &e.InferenceGeo, &reported, &durationMS)
	e.ID, e.Content, e.Feed = usage.ID(id), usage.ID(content), usage.Feed(feed)
	e.Time, e.Arrived = e.Time.UTC(), e.Arrived.UTC()
	e.Reported = usage.NullNanoOf(reported)
	e.Duration = time.Duration(durationMS) * time.Millisecond
	return e, err
}

// Fingerprints digests, per run, every fact that the derivation of the run's
// pushes depends on. Equal fingerprints before reading and after writing mean
// that no fact came in between.
func (s *Store) Fingerprints(ctx context.Context, runs, sessions []string) (map[string]uint64, error) {
	out := map[string]uint64{}
	if len(runs) == 0 {
		return out, nil
	}
	const q = `SELECT run, sum(h) FROM (
			SELECT run, cityHash64(id, min(arrived)) AS h FROM samples WHERE run IN (@runs) GROUP BY run, id
			UNION ALL SELECT DISTINCT run, cityHash64('end', arrived) FROM ends WHERE run IN (@runs)
			UNION ALL SELECT DISTINCT run, cityHash64('link', * EXCEPT run) FROM links WHERE run IN (@runs)
			UNION ALL SELECT DISTINCT run, cityHash64('model', model) FROM events WHERE run IN (@runs) AND ` + notLost + `
			UNION ALL SELECT DISTINCT 'session ' || session, cityHash64('model', model) FROM events
				WHERE run = '' AND session != '' AND session IN (@sessions) AND ` + notLost + `
		) GROUP BY run`
	err := s.query(ctx, "fingerprints", q, named(runs, sessions), func(rows driver.Rows) error {
		var (
			run string
			sum uint64
		)
		err := rows.Scan(&run, &sum)
		out[run] = sum
		return err
	})
	return out, err
}
