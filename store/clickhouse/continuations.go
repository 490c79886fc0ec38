package clickhouse

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Continuations says what going on from handoffs saved: one continuation is a
// run's first read of a revision that another run wrote.
//
// The saving of one is the context of the writer's last call before the read
// (everything that the call sent, cached or not, of the main agent), which
// replaying it would send again, less the approximate tokens of the handoff,
// and at least 0. It is an estimate: nobody would replay every time, and what
// the reader had to find out again is not known.
type Continuations struct {
	Count     uint64
	Estimated uint64
	// Unknown are those whose writer's context is not known: no call of it is
	// in the ledger, only counters, or the writer is no known run.
	Unknown uint64
	// UnattributedReads are reads of others' revisions whose reader is no known
	// run, such as a person's. They are no continuations.
	UnattributedReads uint64
	// SavedTokens is the sum over the estimated.
	SavedTokens uint64
	// Rows are the same tokens by the price row of the writer's call, in order.
	Rows []RowTokens
}

// RowTokens are tokens of calls that one price row priced; "" is unpriced.
type RowTokens struct {
	PriceRow string
	Tokens   uint64
}

// continuation is a read of a revision by another caller than its writer.
type continuation struct {
	key            string
	revision       uint64
	writer, reader string // request ids, then runs; "" is no known run
	written, read  int64  // µs
	tokens         uint64 // of the handoff
	context        uint64 // of the writer
	priceRow       string
	estimated      bool
}

const (
	// maxContinuations bounds what is held: about 50 MB.
	maxContinuations = 200_000
	// perQuery bounds the lists that are part of a query's text.
	perQuery = 5000
	// lifeOfRun is how long before it wrote a handoff a run made calls, at most:
	// the bound of what is searched for the last one.
	lifeOfRun = 24 * time.Hour
)

func (s *Store) continuations(ctx context.Context, q HandoffStatsQuery) (Continuations, error) {
	reads, err := s.readsOfOthers(ctx, q)
	if err != nil {
		return Continuations{}, err
	}
	if err := s.attribute(ctx, reads); err != nil {
		return Continuations{}, err
	}
	var out Continuations
	reads, out.UnattributedReads = distinct(reads)
	var known []*continuation
	for i := range reads {
		if reads[i].writer != "" {
			known = append(known, &reads[i])
		}
	}
	for part := range slices.Chunk(known, perQuery) {
		if err := s.lastContexts(ctx, part); err != nil {
			return Continuations{}, err
		}
	}
	out.add(reads)
	return out, nil
}

func (c *Continuations) add(all []continuation) {
	byRow := map[string]uint64{}
	for i := range all {
		r := &all[i]
		c.Count++
		if !r.estimated {
			c.Unknown++
			continue
		}
		c.Estimated++
		saved := r.context - min(r.context, r.tokens)
		c.SavedTokens += saved
		byRow[r.priceRow] += saved
	}
	for _, row := range slices.Sorted(maps.Keys(byRow)) {
		c.Rows = append(c.Rows, RowTokens{row, byRow[row]})
	}
}

// readsOfOthers are the first reads of revisions, per request id, that fall
// into the range, by the time of the write.
func (s *Store) readsOfOthers(ctx context.Context, q HandoffStatsQuery) ([]continuation, error) {
	// The keys that were read in the range: a small part of all, as a rule.
	const ofRange = `handoff_key IN (SELECT handoff_key FROM chat_facts WHERE handoff_key != '' AND action = 'handoff_read' AND ` + inRange + `)`
	sql := `SELECT r.handoff_key, r.revision, w.writer, r.reader, w.written, r.first, w.tokens
		FROM (
			SELECT handoff_key, revision, request_id AS reader, toUnixTimestamp64Micro(min(time)) AS first FROM chat_events
			WHERE ` + ofRange + ` AND action = 'handoff_read' AND time < fromUnixTimestamp64Micro(@to)
			GROUP BY handoff_key, revision, request_id HAVING first >= @from
		) AS r
		INNER JOIN (
			SELECT handoff_key, revision, request_id AS writer, toUnixTimestamp64Micro(time) AS written, approximate_tokens AS tokens
			FROM chat_events WHERE ` + ofRange + ` AND ` + handoffWrites + ` AND ` + q.filter() + `
		) AS w USING (handoff_key, revision)
		WHERE r.reader != w.writer
		ORDER BY written, handoff_key, revision, reader` + fmt.Sprintf(" LIMIT %d", maxContinuations+1)
	var out []continuation
	err := s.query(ctx, "reads of handoffs", sql, q.args(), func(rows driver.Rows) error {
		if len(out) == maxContinuations {
			return ErrTooManyRows
		}
		var c continuation
		err := rows.Scan(&c.key, &c.revision, &c.writer, &c.reader, &c.written, &c.read, &c.tokens)
		out = append(out, c)
		return err
	})
	return out, err
}

// attribute turns request ids into runs: an id that is a run's is that run, by
// contract of the wrapper; of any other, the run is the one that was linked to
// the handoff's key last by then.
func (s *Store) attribute(ctx context.Context, reads []continuation) error {
	if len(reads) == 0 {
		return nil
	}
	ids := map[string]struct{}{}
	since, until := reads[0].written, int64(0) // they are in the order of writes
	for i := range reads {
		c := &reads[i]
		ids[c.writer], ids[c.reader] = struct{}{}, struct{}{}
		until = max(until, c.read)
	}
	runs, err := s.knownRuns(ctx, slices.Sorted(maps.Keys(ids)), since, until)
	if err != nil {
		return err
	}
	keys := map[string]struct{}{}
	for i := range reads {
		if c := &reads[i]; !runs[c.writer] || !runs[c.reader] {
			keys[c.key] = struct{}{}
		}
	}
	links, err := s.linksOfKeys(ctx, slices.Sorted(maps.Keys(keys)))
	if err != nil {
		return err
	}
	for i := range reads {
		c := &reads[i]
		if !runs[c.writer] {
			c.writer = linkedBy(links[c.key], c.written)
		}
		if !runs[c.reader] {
			c.reader = linkedBy(links[c.key], c.read)
		}
	}
	return nil
}

// distinct keeps one continuation per revision and reading run, its first,
// and counts the reads of nobody known.
func distinct(reads []continuation) (kept []continuation, unattributed uint64) {
	type identity struct {
		key      string
		revision uint64
		reader   string
	}
	seen := map[identity]int{}
	for i := range reads {
		c := reads[i]
		if c.reader == "" {
			unattributed++
			continue
		}
		if c.reader == c.writer {
			continue
		}
		id := identity{c.key, c.revision, c.reader}
		if at, ok := seen[id]; ok {
			kept[at].read = min(kept[at].read, c.read)
			continue
		}
		seen[id] = len(kept)
		kept = append(kept, c)
	}
	return kept, unattributed
}

// knownRuns returns those of the ids under which the ledger knows a run, with
// facts around the given times.
func (s *Store) knownRuns(ctx context.Context, ids []string, since, until int64) (map[string]bool, error) {
	const q = `SELECT DISTINCT run FROM (
			SELECT run FROM samples WHERE run IN (@ids)
			UNION ALL SELECT run FROM links WHERE run IN (@ids)
			UNION ALL SELECT run FROM events WHERE run IN (@ids)
				AND time >= fromUnixTimestamp64Micro(@since) AND time < fromUnixTimestamp64Micro(@until)
		) WHERE run != ''`
	out := map[string]bool{}
	for part := range slices.Chunk(ids, perQuery) {
		args := []any{
			clickhouse.Named("ids", part),
			clickhouse.Named("since", since-lifeOfRun.Microseconds()), clickhouse.Named("until", until+lifeOfRun.Microseconds()),
		}
		err := s.query(ctx, "known runs", q, args, func(rows driver.Rows) error {
			var run string
			err := rows.Scan(&run)
			out[run] = true
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// keyLink says that a run was linked to a handoff's key.
type keyLink struct {
	run     string
	arrived int64 // µs
}

// linksOfKeys returns the links by key, in the order in which they arrived.
func (s *Store) linksOfKeys(ctx context.Context, keys []string) (map[string][]keyLink, error) {
	const q = `SELECT DISTINCT handoff_key, run, toUnixTimestamp64Milli(arrived) * 1000 AS at FROM links
		WHERE handoff_key IN (@keys) ORDER BY at, run`
	out := map[string][]keyLink{}
	for part := range slices.Chunk(keys, perQuery) {
		err := s.query(ctx, "links of handoffs", q, []any{clickhouse.Named("keys", part)}, func(rows driver.Rows) error {
			var (
				key string
				l   keyLink
			)
			err := rows.Scan(&key, &l.run, &l.arrived)
			out[key] = append(out[key], l)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// linkedBy is the run that was linked last at or before a time, or "".
func linkedBy(links []keyLink, at int64) string {
	after := sort.Search(len(links), func(i int) bool { return links[i].arrived > at })
	if after == 0 {
		return ""
	}
	return links[after-1].run
}

// lastContexts finds the context of each writer's last call before the read.
// Only feeds that know single calls (requests is not null) tell; subagents have
// contexts of their own. The conditions of PREWHERE apply before versions of a
// charge are told apart and name only what is the same in all of them.
func (s *Store) lastContexts(ctx context.Context, part []*continuation) error {
	const q = `SELECT w.i, c.last.1, c.last.2
		FROM (
			SELECT arrayJoin(arrayZip(range(length(@runs)), @runs, @reads)) AS wanted,
				wanted.1 AS i, wanted.2 AS run, toInt64(wanted.3) AS at
		) AS w
		ASOF INNER JOIN (
			SELECT run, toUnixTimestamp64Milli(time) * 1000 AS at,
				max((input_tokens + cache_read_tokens + cache_write_tokens, toString(price_row))) AS last
			FROM charges FINAL
			PREWHERE bucket >= toDateTime(intDiv(@since, 1000000), 'UTC') AND bucket <= toDateTime(intDiv(@until, 1000000), 'UTC')
				AND (fact_run IN (@runs)
					OR fact_run = '' AND session IN (SELECT session FROM links WHERE session != '' AND run IN (@runs)))
			WHERE run IN (@runs) AND counted AND requests = 1 AND agent = ''
			GROUP BY run, time
		) AS c ON w.run = c.run AND w.at >= c.at`
	since := slices.MinFunc(part, func(a, b *continuation) int { return cmp.Compare(a.written, b.written) }).written
	until := slices.MaxFunc(part, func(a, b *continuation) int { return cmp.Compare(a.read, b.read) }).read
	runs, reads := make([]string, len(part)), make([]int64, len(part))
	for i := range part {
		runs[i], reads[i] = part[i].writer, part[i].read
	}
	args := []any{
		clickhouse.Named("runs", runs), clickhouse.Named("reads", reads),
		clickhouse.Named("since", since-lifeOfRun.Microseconds()), clickhouse.Named("until", until),
	}
	return s.query(ctx, "contexts of runs", q, args, func(rows driver.Rows) error {
		var (
			i       uint64
			context uint64
			row     string
		)
		if err := rows.Scan(&i, &context, &row); err != nil {
			return err
		}
		c := part[i]
		c.context, c.priceRow, c.estimated = context, row, true
		return nil
	})
}
