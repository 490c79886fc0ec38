package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"
	"github.com/spf13/cobra"

	"github.com/szymonrychu/tatara-ledger/api"
	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/wire"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
	"github.com/szymonrychu/tatara-ledger/store/engine"
)

type reportFlags struct {
	client clientFlags
	by     []string
	since  string
	from   string
	to     string
	filter []string
	format string
	store  clickHouseFlags
	engine engine.Config
}

func newReportCommand() *cobra.Command {
	f := reportFlags{engine: engine.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Show spend and the cache-hit ratio",
		Long: `Show dollars, tokens and the cache-hit ratio per kind, repository, project,
model, task, issue, day or hour.

It asks a running service, or, with --clickhouse or --data-dir, the store itself,
whether or not a service runs on it. A "~" marks
costs that are approximate (counters do not tell the size of a request or the
lifetime of a cache write), "?" those that are partly what the source reported.`,
		Example: `  tatara-ledger report --by kind --since 7d
  tatara-ledger report --by repo,model --since 24h --where project=demo --format csv
  tatara-ledger report --by day --from 2026-11-01 --to 2026-12-01 --format json
  tatara-ledger report --data-dir ./data --by model`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	f.client.add(fl)
	fl.StringSliceVar(&f.by, "by", []string{"kind"}, "dimensions: "+strings.Join(clickhouse.Dimensions(), ", "))
	fl.StringVar(&f.since, "since", "7d", "how far back, such as 90m, 24h or 7d")
	fl.StringVar(&f.from, "from", "", "start, inclusive, instead of --since: RFC 3339 `time` or date")
	fl.StringVar(&f.to, "to", "", "end, exclusive: RFC 3339 `time` or date (default: now)")
	fl.StringArrayVar(&f.filter, "where", nil, "filter as `dimension=value`, repeatable; values of one dimension are alternatives")
	fl.StringVar(&f.format, "format", "table", "output format: table, json or csv")
	f.store.add(fl)
	f.engine.DataDir = ""        // the service is asked unless one is given
	f.engine.ClickHouse.Port = 0 // only this command connects to an engine of its own
	f.engine.ClickHouseFlags(fl)
	return cmd
}

func (f *reportFlags) run(ctx context.Context, w, stderr io.Writer) error {
	if err := badFormat(f.format, "table", "json", "csv"); err != nil {
		return err
	}
	params, err := f.params(time.Now())
	if err != nil {
		return &exitError{2, err}
	}
	spend, err := f.query(ctx, params, stderr)
	if err != nil {
		return err
	}
	switch f.format {
	case "json":
		return writeJSON(w, spend)
	case "csv":
		return spend.WriteCSV(w, f.by)
	}
	return writeSpendTable(w, spend, f.by)
}

func (f *reportFlags) params(now time.Time) (url.Values, error) {
	p := url.Values{"by": {strings.Join(f.by, ",")}}
	for _, c := range f.filter {
		name, value, ok := strings.Cut(c, "=")
		if !ok {
			return nil, fmt.Errorf("--where %q: use dimension=value", c)
		}
		p.Add(name, value)
	}
	if f.to != "" {
		p.Set("to", f.to)
	}
	if f.from != "" {
		p.Set("from", f.from)
		return p, nil
	}
	since, err := parseAge("--since", f.since)
	if err != nil {
		return nil, err
	}
	p.Set("from", now.UTC().Add(-since).Format(time.RFC3339))
	return p, nil
}

// parseAge reads a Go duration, or a number of days such as 7d.
func parseAge(flag, s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 36500 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	} else if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%s %q: use a duration such as 90m, 24h or 7d", flag, s)
}

func (f *reportFlags) query(ctx context.Context, params url.Values, stderr io.Writer) (_ *wire.Spend, err error) {
	if len(f.store.clickHouse) == 0 && f.engine.DataDir == "" {
		var spend *wire.Spend
		err := f.client.call(ctx, func(c *client.Client) (err error) {
			spend, err = c.Spend(ctx, params)
			return err
		})
		return spend, err
	}
	q, err := api.ParseSpendQuery(params, time.Now())
	if err != nil {
		return nil, &exitError{2, err}
	}
	ledger, done, err := f.store.openLedger(ctx, f.engine, newLogger(stderr, slog.LevelWarn))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	return api.Spend(ctx, ledger, q)
}

func writeSpendTable(w io.Writer, s *wire.Spend, by []string) error {
	span := s.From.Format("2006-01-02 15:04") + " to " + s.To.Format("2006-01-02 15:04") + " UTC"
	if len(s.Rows) == 0 {
		return writeEmpty(w, s, span)
	}
	t := tablewriter.NewTable(w, tablewriter.WithConfig(tablewriter.Config{
		Header: tw.CellConfig{Formatting: tw.CellFormatting{AutoFormat: tw.Off}, Alignment: tw.CellAlignment{Global: tw.AlignLeft}},
		Row:    tw.CellConfig{Alignment: tw.CellAlignment{PerColumn: spendAlignment(len(by))}},
		Footer: tw.CellConfig{Formatting: tw.CellFormatting{AutoFormat: tw.Off}, Alignment: tw.CellAlignment{PerColumn: spendAlignment(len(by))}},
	}))
	t.Header(append(append([]string{}, by...), "cost $", "cache hit", "saved $", "requests", "input", "output", "cache read", "cache write", "unpriced"))
	for _, r := range s.Rows {
		keys := make([]string, len(by))
		for i, k := range by {
			keys[i] = r.Keys[k]
			if keys[i] == "" {
				keys[i] = "(none)"
			}
		}
		if err := t.Append(append(keys, spendCells(&r.Sums)...)); err != nil {
			return fmt.Errorf("writing the table: %w", err)
		}
	}
	footer := make([]string, len(by))
	if len(by) > 0 {
		footer[0] = "total"
	}
	t.Footer(append(footer, spendCells(&s.Total)...))
	if err := t.Render(); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	_, err := fmt.Fprintln(w, span+legend(s))
	return err
}

// legend explains the marks that [spendCells] writes, if any is there. The total
// has each mark that a row has.
func legend(s *wire.Spend) string {
	var marks []string
	if s.Total.CostUSD != nil && s.Total.Approximate {
		marks = append(marks, "~ approximate")
	}
	if s.Total.CostUSD != nil && s.Total.Estimated {
		marks = append(marks, "? partly as reported by the source, not priced by us")
	}
	if len(marks) == 0 {
		return ""
	}
	return "\n" + strings.Join(marks, "; ")
}

func spendAlignment(keys int) tw.Alignment {
	a := make(tw.Alignment, keys+9)
	for i := range a {
		a[i] = tw.AlignRight
		if i < keys {
			a[i] = tw.AlignLeft
		}
	}
	return a
}

func spendCells(s *wire.Sums) []string {
	cost, savings, requests, ratio := "unpriced", "–", "–", "–"
	if s.CostUSD != nil {
		cost = cents(*s.CostUSD)
		if s.Approximate {
			cost = "~" + cost
		}
		if s.Estimated {
			cost = "?" + cost
		}
	}
	if s.CacheSavingsUSD != nil {
		savings = cents(*s.CacheSavingsUSD)
	}
	if s.Requests != nil {
		requests = thousands(*s.Requests)
	}
	if s.CacheHitRatio != nil {
		// Rounded down: what is not all must not read as 100 %.
		ratio = strconv.FormatFloat(math.Floor(1000**s.CacheHitRatio)/10, 'f', 1, 64) + " %"
	}
	return []string{
		cost, ratio, savings, requests, thousands(s.InputTokens), thousands(s.OutputTokens),
		thousands(s.CacheReadTokens), thousands(s.CacheWriteTokens), thousands(s.UnpricedTokens),
	}
}

// cents rounds an exact amount for people; JSON and CSV have all digits.
func cents(exact string) string {
	v, err := strconv.ParseFloat(exact, 64)
	if err != nil {
		return exact
	}
	switch abs := math.Abs(v); {
	case v == 0:
		return "0.00"
	case abs < 0.0001:
		return strconv.FormatFloat(v, 'g', 1, 64)
	case abs < 0.01:
		return strconv.FormatFloat(v, 'f', 4, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// thousands groups digits by thin separators that spreadsheets and people read.
func thousands(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func writeEmpty(w io.Writer, s *wire.Spend, span string) error {
	if _, err := fmt.Fprintf(w, "No spend from %s.\n", span); err != nil {
		return err
	}
	if len(s.Sources) == 0 {
		_, err := fmt.Fprintln(w, "No source was ever heard: point a wrapper's OPERATOR_PUSH_URL at the push listener, or POST /v1/calls.")
		return err
	}
	for _, src := range s.Sources {
		project := src.Project
		if project == "" {
			project = "(none)"
		}
		ago := time.Since(src.LastHeard).Round(time.Second)
		if _, err := fmt.Fprintf(w, "Source %s of project %s was last heard %s ago, at %s.\n", src.Feed, project, ago, src.LastHeard.Format(time.RFC3339)); err != nil {
			return err
		}
	}
	return nil
}
