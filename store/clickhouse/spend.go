package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// ErrDimension is wrapped by an error that names a dimension or filter that
// does not exist.
var ErrDimension = errors.New("unknown dimension")

// ErrTooManyRows says that a query groups so finely that its answer would not
// fit in memory.
var ErrTooManyRows = errors.New("too many rows")

// maxSpendRows bounds one answer: about 100 MB.
const maxSpendRows = 200_000

// Dimensions are what spend can be grouped and filtered by.
func Dimensions() []string {
	return []string{"kind", "repo", "project", "model", "task", "issue", "run", "session", "effort", "agent", "feed", "day", "hour"}
}

// hourly are the dimensions that the hourly rollup keeps.
func hourly() []string {
	return []string{"kind", "repo", "project", "model", "effort", "agent", "feed", "day", "hour"}
}

// SpendQuery selects spend. From is inclusive, To exclusive; both lie on
// bucket boundaries.
type SpendQuery struct {
	By       []string
	From, To time.Time
	Filter   map[string][]string // dimension → any of these values
}

// Spend is one sum. A pointer is nil where nothing is known, which is not zero.
type Spend struct {
	Keys           []string // values of By, in its order; days and hours in RFC 3339
	Requests       *uint64
	Tokens         usage.Tokens
	WebSearches    uint64
	UnpricedTokens uint64
	Cost           usage.NullNano
	Reported       usage.NullNano
	Computed       usage.NullNano
	Savings        usage.NullNano
	Approximate    bool
	Estimated      bool
}

// Add adds o to s. A figure is unknown only where it is unknown in both.
func (s *Spend) Add(o *Spend) {
	if o.Requests != nil {
		n := *o.Requests
		if s.Requests != nil {
			n += *s.Requests
		}
		s.Requests = &n
	}
	s.Tokens.Input += o.Tokens.Input
	s.Tokens.Output += o.Tokens.Output
	s.Tokens.CacheRead += o.Tokens.CacheRead
	s.Tokens.CacheWrite += o.Tokens.CacheWrite
	s.Tokens.CacheWrite5m += o.Tokens.CacheWrite5m
	s.Tokens.CacheWrite1h += o.Tokens.CacheWrite1h
	s.WebSearches += o.WebSearches
	s.UnpricedTokens += o.UnpricedTokens
	s.Cost, s.Reported = s.Cost.Plus(o.Cost), s.Reported.Plus(o.Reported)
	s.Computed, s.Savings = s.Computed.Plus(o.Computed), s.Savings.Plus(o.Savings)
	s.Approximate = s.Approximate || o.Approximate
	s.Estimated = s.Estimated || o.Estimated
}

// Spend sums the ledger. The rows are in the order of their cost, highest
// first, or of time if grouped by it.
func (s *Store) Spend(ctx context.Context, q SpendQuery) ([]Spend, error) {
	sql, args, err := spendSQL(q)
	if err != nil {
		return nil, err
	}
	var out []Spend
	err = s.query(ctx, "spend", sql, args, func(rows driver.Rows) error {
		if len(out) == maxSpendRows {
			return ErrTooManyRows
		}
		row, err := scanSpend(rows, len(q.By))
		out = append(out, row)
		return err
	})
	return out, err
}

func spendSQL(q SpendQuery) (string, []any, error) {
	var keys, order []string
	for _, d := range q.By {
		if !slices.Contains(Dimensions(), d) {
			return "", nil, fmt.Errorf("%w: %q", ErrDimension, d)
		}
		keys = append(keys, keyExpression(d))
		if d == "day" || d == "hour" {
			order = append(order, keyExpression(d))
		}
	}
	where, args, err := spendFilter(q.Filter)
	if err != nil {
		return "", nil, err
	}
	order = append(order, "sum(cost_nano) DESC NULLS LAST")
	order = append(order, keys...)
	args = append(args, clickhouse.Named("from", q.From), clickhouse.Named("to", q.To))
	sql := "SELECT " + strings.Join(append(slices.Clone(keys), spendSums), ", ") +
		" FROM " + spendSource(q) + " WHERE " + where
	if len(keys) > 0 {
		sql += " GROUP BY " + strings.Join(keys, ", ")
	} else {
		sql += " HAVING count() > 0"
	}
	return sql + " ORDER BY " + strings.Join(order, ", "), args, nil
}

const spendSums = `sum(requests), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens),
	sum(cache_write_tokens), sum(cache_write_5m_tokens), sum(cache_write_1h_tokens), sum(web_searches),
	sum(unpriced_tokens), sum(cost_nano), sum(reported_nano), sum(computed_nano), sum(savings_nano),
	max(approximate), max(estimated)`

func keyExpression(dimension string) string {
	switch dimension {
	case "day":
		return "formatDateTime(toStartOfDay(time, 'UTC'), '%FT%TZ', 'UTC')"
	case "hour":
		return "formatDateTime(toStartOfHour(time, 'UTC'), '%FT%TZ', 'UTC')"
	default:
		return "toString(" + dimension + ")"
	}
}

func spendFilter(filter map[string][]string) (string, []any, error) {
	conditions, args := []string{"1"}, []any{}
	for _, d := range Dimensions() {
		if values, ok := filter[d]; ok && d != "day" && d != "hour" {
			conditions = append(conditions, d+" IN (@"+d+")")
			args = append(args, clickhouse.Named(d, values))
		}
	}
	for d := range filter {
		if !slices.Contains(Dimensions(), d) || d == "day" || d == "hour" {
			return "", nil, fmt.Errorf("%w: %q", ErrDimension, d)
		}
	}
	return strings.Join(conditions, " AND "), args, nil
}

// longRange is where reading whole hours instead of their buckets pays.
const longRange = 24 * time.Hour

// spendSource reads whole hours from the hourly rollup and the edges from the
// buckets, where range and dimensions allow. The parts do not overlap, so that
// each may judge by itself what is dirty.
func spendSource(q SpendQuery) string {
	fine := q.To.Sub(q.From) < longRange
	for _, d := range q.By {
		fine = fine || !slices.Contains(hourly(), d)
	}
	for d := range q.Filter {
		fine = fine || !slices.Contains(hourly(), d)
	}
	if fine {
		return "(SELECT * FROM spend WHERE time >= @from AND time < @to)"
	}
	const columns = `time, feed, project, repo, kind, model, effort, agent, ` + sumNames
	return `(SELECT ` + columns + ` FROM spend_hourly
			WHERE time >= toStartOfHour(@from + INTERVAL 3599 SECOND) AND time < toStartOfHour(@to)
		UNION ALL SELECT ` + columns + ` FROM spend
			WHERE time >= @from AND time < toStartOfHour(@from + INTERVAL 3599 SECOND)
		UNION ALL SELECT ` + columns + ` FROM spend WHERE time >= toStartOfHour(@to) AND time < @to)`
}

func scanSpend(rows driver.Rows, keys int) (Spend, error) {
	row := Spend{Keys: make([]string, keys)}
	var (
		cost, reported, computed, savings *int64
		approximate, estimated            uint8
	)
	t := &row.Tokens
	dest := make([]any, 0, keys+15)
	for i := range row.Keys {
		dest = append(dest, &row.Keys[i])
	}
	dest = append(dest, &row.Requests, &t.Input, &t.Output, &t.CacheRead, &t.CacheWrite, &t.CacheWrite5m, &t.CacheWrite1h,
		&row.WebSearches, &row.UnpricedTokens, &cost, &reported, &computed, &savings, &approximate, &estimated)
	err := rows.Scan(dest...)
	row.Cost, row.Reported = usage.NullNanoOf(cost), usage.NullNanoOf(reported)
	row.Computed, row.Savings = usage.NullNanoOf(computed), usage.NullNanoOf(savings)
	row.Approximate, row.Estimated = approximate == 1, estimated == 1
	return row, err
}

// Source says when a feed of a project was last heard.
type Source struct {
	Feed, Project string
	First, Last   time.Time
}

// Sources returns every source, the most recently heard first.
func (s *Store) Sources(ctx context.Context) ([]Source, error) {
	var out []Source
	const q = `SELECT feed, project, first_heard, last_heard FROM sources ORDER BY last_heard DESC, feed, project`
	err := s.query(ctx, "sources", q, nil, func(rows driver.Rows) error {
		var src Source
		err := rows.Scan(&src.Feed, &src.Project, &src.First, &src.Last)
		src.First, src.Last = src.First.UTC(), src.Last.UTC()
		out = append(out, src)
		return err
	})
	return out, err
}
