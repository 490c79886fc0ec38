package clickhouse

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"
)

// maxHandoffGroups bounds the groups of one answer; projects and kinds are
// open strings.
const maxHandoffGroups = 10_000

// SizeBounds are the upper bounds of the classes of sizes, in bytes; larger
// bodies are in one more class. The smallest whose tokens can matter, then
// doubling up to the default limit of a body.
func SizeBounds() []uint64 { return []uint64{256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536} }

// ApproximateTokens is about how many tokens a text of so many bytes has: one
// for four bytes, rounded up. Tokenizers of models give English prose and code
// 3 to 5 bytes a token; other scripts fewer, so that their tokens are
// underestimated.
func ApproximateTokens(bytes uint64) uint64 { return bytes/4 + min(bytes%4, 1) }

// HandoffStatsQuery selects handoffs for statistics.
type HandoffStatsQuery struct {
	// Projects, Repos and Kinds select handoffs with any of the values; empty:
	// every one.
	Projects, Repos, Kinds []string
	// From (inclusive) and To (exclusive) select the writes and continuations
	// that are judged. What is open does not depend on them.
	From, To time.Time
	// Now is what ages are measured against.
	Now time.Time
	// StaleAfter is how long after its last write a handoff counts as stale.
	StaleAfter time.Duration
	// Keys bounds each list of handoffs.
	Keys int
}

// HandoffStats are statistics of handoffs. Reads are best effort: what is
// called unread may have been read.
type HandoffStats struct {
	Open           HandoffAges
	Groups         []HandoffGroup // of Open, the largest first
	Stale          []OpenHandoff  // the longest untouched first
	NeverRead      []OpenHandoff  // likewise
	Size           HandoffSizes   // of what is open
	ReadAfterWrite ReadAfterWrite
	Continuations  Continuations
}

// HandoffAges counts open handoffs. Ages are those of their last write;
// quantiles are values that occur (the one at rank ⌊p·n⌋).
type HandoffAges struct {
	Count             uint64
	Stale             uint64
	NeverRead         uint64 // in no revision
	UnreadSince       uint64 // not since the last write
	Oldest            time.Duration
	MedianAge, P95Age time.Duration
}

// HandoffGroup are the open handoffs of one project and kind.
type HandoffGroup struct {
	Project, Kind string
	HandoffAges
}

// OpenHandoff is one open handoff.
type OpenHandoff struct {
	Key, Project, Repo, Kind string
	UpdatedAt                time.Time
	Bytes, Reads             uint64
}

// HandoffSizes are sizes of bodies in bytes.
type HandoffSizes struct {
	Median, P95, Max uint64
	// Counts are those of the classes of [SizeBounds], and of what is larger.
	Counts []uint64
}

// ReadAfterWrite says how soon what was written is read.
type ReadAfterWrite struct {
	Writes      uint64        // within the range
	Read        uint64        // of these, those of which a read is known
	Median, P95 time.Duration // from a write to the first read of that revision
}

// HandoffStats computes statistics of handoffs. It returns [ErrTooManyRows] if
// the range holds too many continuations.
func (s *Store) HandoffStats(ctx context.Context, q HandoffStatsQuery) (*HandoffStats, error) {
	out := &HandoffStats{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2) // others use the connections too
	g.Go(func() error { return s.openHandoffs(ctx, q, out) })
	g.Go(func() error { return s.handoffLists(ctx, q, out) })
	g.Go(func() error { return s.readAfterWrite(ctx, q, out) })
	g.Go(func() (err error) {
		out.Continuations, err = s.continuations(ctx, q)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

const (
	handoffWrites  = `action IN ('handoff_written', 'handoff_restored')`
	handoffAge     = `greatest(@now - toUnixTimestamp64Micro(updated_at), 0)`
	handoffIsStale = handoffAge + ` >= @stale`
	handoffAges    = `count(), countIf(` + handoffIsStale + `), countIf(reads = 0), countIf(reads_since_write = 0),
		max(` + handoffAge + `), quantileExact(0.5)(` + handoffAge + `), quantileExact(0.95)(` + handoffAge + `)`
)

// filter is a condition on project, repo and kind.
func (q *HandoffStatsQuery) filter() string {
	where := "1"
	for _, f := range []struct {
		name   string
		values []string
	}{{"project", q.Projects}, {"repo", q.Repos}, {"kind", q.Kinds}} {
		if len(f.values) > 0 {
			where += " AND " + f.name + " IN (@" + f.name + ")"
		}
	}
	return where
}

// args are every parameter of the queries below.
func (q *HandoffStatsQuery) args() []any {
	return []any{
		clickhouse.Named("project", q.Projects), clickhouse.Named("repo", q.Repos), clickhouse.Named("kind", q.Kinds),
		clickhouse.Named("from", q.From.UnixMicro()), clickhouse.Named("to", q.To.UnixMicro()),
		clickhouse.Named("now", q.Now.UnixMicro()), clickhouse.Named("stale", q.StaleAfter.Microseconds()),
	}
}

// openHandoffs reads the ages by project and kind and, in the same pass, those
// of all and the sizes.
func (s *Store) openHandoffs(ctx context.Context, q HandoffStatsQuery, out *HandoffStats) error {
	sql := `SELECT toUInt8(grouping(project)) AS all, toString(project), toString(kind), ` + handoffAges + `,
			quantileExact(0.5)(bytes), quantileExact(0.95)(bytes), max(bytes),
			sumForEach(arrayMap(bound -> toUInt64(bytes <= bound), @bounds))
		FROM handoffs WHERE state = 'open' AND ` + q.filter() + `
		GROUP BY GROUPING SETS ((project, kind), ())
		ORDER BY all, count() DESC, project, kind` + fmt.Sprintf(" LIMIT %d BY all", maxHandoffGroups)
	out.Size.Counts = make([]uint64, len(SizeBounds())+1)
	args := append(q.args(), clickhouse.Named("bounds", SizeBounds()))
	return s.query(ctx, "open handoffs", sql, args, func(rows driver.Rows) error {
		var (
			all        uint8
			g          HandoffGroup
			z          HandoffSizes
			cumulative []uint64
		)
		if err := scanAges(rows, &all, &g, &z, &cumulative); err != nil {
			return err
		}
		switch {
		case all == 0:
			out.Groups = append(out.Groups, g)
		case g.Count > 0:
			z.Counts = append(cumulative, g.Count)
			for i := len(cumulative); i > 0; i-- {
				z.Counts[i] -= z.Counts[i-1]
			}
			out.Open, out.Size = g.HandoffAges, z
		}
		return nil
	})
}

func scanAges(rows driver.Rows, all *uint8, g *HandoffGroup, z *HandoffSizes, cumulative *[]uint64) error {
	var oldest, median, p95 int64
	a := &g.HandoffAges
	err := rows.Scan(all, &g.Project, &g.Kind, &a.Count, &a.Stale, &a.NeverRead, &a.UnreadSince, &oldest, &median, &p95,
		&z.Median, &z.P95, &z.Max, cumulative)
	a.Oldest, a.MedianAge, a.P95Age = microseconds(oldest), microseconds(median), microseconds(p95)
	return err
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// handoffLists reads what is stale and what was never read in one pass.
func (s *Store) handoffLists(ctx context.Context, q HandoffStatsQuery, out *HandoffStats) error {
	const stale = "stale"
	sql := `SELECT arrayJoin(arrayConcat(if(` + handoffIsStale + `, ['stale'], []), if(reads = 0, ['never read'], []))) AS list,
			handoff_key, project, repo, kind, updated_at, bytes, reads
		FROM handoffs WHERE state = 'open' AND ` + q.filter() + `
		ORDER BY list, updated_at, handoff_key` + fmt.Sprintf(" LIMIT %d BY list", q.Keys)
	return s.query(ctx, "lists of handoffs", sql, q.args(), func(rows driver.Rows) error {
		var (
			list string
			h    OpenHandoff
		)
		err := rows.Scan(&list, &h.Key, &h.Project, &h.Repo, &h.Kind, &h.UpdatedAt, &h.Bytes, &h.Reads)
		h.UpdatedAt = h.UpdatedAt.UTC()
		if list == stale {
			out.Stale = append(out.Stale, h)
		} else {
			out.NeverRead = append(out.NeverRead, h)
		}
		return err
	})
}

// readAfterWrite tells the reads of a write by its revision: clocks of two
// replicas may differ.
func (s *Store) readAfterWrite(ctx context.Context, q HandoffStatsQuery, out *HandoffStats) error {
	sql := `SELECT count(), countIf(reads > 0), quantileExactIf(0.5)(latency, reads > 0), quantileExactIf(0.95)(latency, reads > 0)
		FROM (
			SELECT w.written AS written, r.reads AS reads, greatest(r.first - w.written, 0) AS latency
			FROM (
				SELECT handoff_key, revision, toUnixTimestamp64Micro(time) AS written FROM chat_events
				WHERE handoff_key != '' AND ` + handoffWrites + ` AND ` + inRange + ` AND ` + q.filter() + `
			) AS w
			LEFT JOIN (
				SELECT handoff_key, revision, count() AS reads, toUnixTimestamp64Micro(min(time)) AS first FROM chat_events
				WHERE handoff_key != '' AND action = 'handoff_read' AND time >= fromUnixTimestamp64Micro(@from)
				GROUP BY handoff_key, revision
			) AS r USING (handoff_key, revision)
		)`
	return s.query(ctx, "reads after writes", sql, q.args(), func(rows driver.Rows) error {
		var median, p95 int64
		r := &out.ReadAfterWrite
		err := rows.Scan(&r.Writes, &r.Read, &median, &p95)
		r.Median, r.P95 = microseconds(median), microseconds(p95)
		return err
	})
}

// inRange compares the column itself, so that its months and index are used.
const inRange = `time >= fromUnixTimestamp64Micro(@from) AND time < fromUnixTimestamp64Micro(@to)`
