package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"
	"github.com/spf13/cobra"

	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// newPricesCommand shows the price book and explains prices from it. It needs
// no server.
func newPricesCommand() *cobra.Command {
	cmd := newPricesListCommand()
	list := newPricesListCommand()
	cmd.Use = "prices"
	cmd.Short = "Show the price book, or explain a price"
	cmd.Long = `Prices are US$ per million tokens, effective from a date, for prompts above a
size. They are shipped with the program; a file given with --prices is laid over
them. Without a subcommand the book is listed.`
	cmd.Example = strings.ReplaceAll(list.Example, "prices list", "prices") + `
  tatara-ledger prices explain --model claude-opus-4-8 --input 120 --output 2400`
	cmd.AddCommand(list, newPricesExplainCommand())
	return cmd
}

// priceFlags are common to the commands over the price book.
type priceFlags struct {
	file   string
	model  string
	at     string
	format string
}

func (f *priceFlags) add(cmd *cobra.Command, formats string) {
	cmd.Flags().StringVar(&f.file, "prices", "", "price `file` laid over the shipped book")
	cmd.Flags().StringVar(&f.format, "format", "table", "output format: "+formats)
}

func newPricesListCommand() *cobra.Command {
	var f priceFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the price book",
		Long: `List the rows of the price book: by provider and model, the newest first. With
--at only the rows that price a charge of that time.

A price file is checked before anything is listed: an unknown key or a row that
breaks a rule (1 h write ≥ 5 min write ≥ input ≥ read, output ≥ input, nothing
negative or absurd) refuses it with the name of the row.`,
		Example: `  tatara-ledger prices list
  tatara-ledger prices list --model claude-sonnet-5-5-20260928
  tatara-ledger prices list --at 2026-10-01 --format csv
  tatara-ledger prices list --prices ours.yaml --format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.list(cmd.OutOrStdout()) },
	}
	f.add(cmd, "table, json or csv")
	cmd.Flags().StringVar(&f.model, "model", "", "only the rows of this `model`, matched by name or dated name")
	cmd.Flags().StringVar(&f.at, "at", "", "only the rows valid at this `time` (2026-10-07 or RFC 3339)")
	return cmd
}

func (f *priceFlags) list(w io.Writer) error {
	book, err := pricing.LoadFile(f.file)
	if err != nil {
		return err
	}
	rows, err := f.rows(book)
	if err != nil {
		return err
	}
	switch f.format {
	case "json":
		return writeJSON(w, priceObjects(rows))
	case "csv":
		return writePriceCSV(w, rows)
	case "table":
		return writePriceTable(w, rows)
	}
	return badFormat(f.format, "table", "json", "csv")
}

func (f *priceFlags) rows(book *pricing.Book) ([]pricing.Row, error) {
	rows := book.Rows()
	if f.at != "" {
		at, err := pricing.ParseTime(f.at)
		if err != nil {
			return nil, fmt.Errorf("reading --at: want 2026-10-07 or an RFC 3339 time: %w", err)
		}
		rows = book.RowsAt(at)
	}
	if f.model == "" {
		return rows, nil
	}
	known := book.RowsOf(f.model)
	if len(known) == 0 {
		return nil, fmt.Errorf("no row for model %s", f.model)
	}
	return slices.DeleteFunc(rows, func(r pricing.Row) bool { return r.Model != known[0].Model }), nil
}

// priceObject is a row with the reference that charges store.
type priceObject struct {
	pricing.Row
	Ref string `json:"row"`
}

func priceObjects(rows []pricing.Row) []priceObject {
	list := make([]priceObject, len(rows))
	for i, r := range rows {
		list[i] = priceObject{r, r.Ref()}
	}
	return list
}

// priceFields are in the order of the columns that writePriceCSV names.
func priceFields(r pricing.Row) []string {
	from := ""
	if !r.ValidFrom.IsZero() {
		from = r.ValidFrom.Format(time.RFC3339)
	}
	return []string{
		r.Provider, r.Model, from, strconv.FormatUint(r.AbovePromptTokens, 10),
		r.Input.String(), r.Output.String(), r.CacheWrite5m.String(), r.CacheWrite1h.String(),
		r.CacheRead.String(), r.Batch.String(), r.USInference.String(), r.Fast.String(), r.WebSearch.String(),
	}
}

func writePriceCSV(w io.Writer, rows []pricing.Row) error {
	out := csv.NewWriter(w)
	records := [][]string{{ // the keys of the price file, then what it does not say
		"provider", "model", "valid_from", "above_prompt_tokens", "input", "output", "cache_write_5m", "cache_write_1h",
		"cache_read", "batch", "us_inference", "fast", "web_search_per_thousand", "row", "source",
	}}
	for _, r := range rows {
		records = append(records, append(priceFields(r), r.Ref(), r.Source))
	}
	return out.WriteAll(records)
}

// writePriceTable leaves out what is the same everywhere or of use to programs.
func writePriceTable(w io.Writer, rows []pricing.Row) error {
	table := tablewriter.NewTable(w, tablewriter.WithHeaderAutoFormat(tw.Off)) // it would write "5m" as "5 M"
	table.Header("model", "from", "prompt >", "in", "out", "write 5m", "write 1h", "read", "batch", "us", "fast", "search/1000")
	for _, r := range rows {
		from, above := "", ""
		if !r.ValidFrom.IsZero() {
			from = strings.TrimSuffix(r.ValidFrom.Format(time.RFC3339), "T00:00:00Z")
		}
		if r.AbovePromptTokens > 0 {
			above = strconv.FormatUint(r.AbovePromptTokens, 10)
		}
		cells := append([]string{r.Model, from, above}, priceFields(r)[4:]...)
		if err := table.Append(cells); err != nil {
			return fmt.Errorf("drawing the price table: %w", err)
		}
	}
	return table.Render()
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func newPricesExplainCommand() *cobra.Command {
	var f priceFlags
	var u pricing.Usage
	var fast, counter bool
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Price one call and show the arithmetic",
		Long: `Price one call: which row, tier and modifiers, each line of the arithmetic, and
what the cache saved. --input never includes cached tokens.

--cache-write is the total of the cache writes. What it exceeds the writes of
known lifetime by is priced at the 5 minute rate and marked approximate; left
out, it is their sum.

A model that the book does not know is not an error: it is unpriced, and the
output says so (null in JSON).`,
		Example: `  tatara-ledger prices explain --model claude-opus-4-8 --input 120 --output 2400
  tatara-ledger prices explain --model claude-sonnet-4-5 --input 10000 --cache-read 240000
  tatara-ledger prices explain --model claude-opus-4-6 --cache-write-1h 9149 --fast --inference-geo us
  tatara-ledger prices explain --model claude-sonnet-5-5 --cache-read 1000000 --at 2026-10-01 --format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if u.Model == "" {
				return errors.New("--model is required")
			}
			if fast {
				u.Speed = pricing.SpeedFast
			}
			u.WholeRequest = !counter
			known := u.Tokens.CacheWrite5m + u.Tokens.CacheWrite1h
			if !cmd.Flags().Changed("cache-write") {
				u.Tokens.CacheWrite = known
			}
			if u.Tokens.CacheWrite < known {
				return fmt.Errorf("--cache-write %d is less than its parts, %d", u.Tokens.CacheWrite, known)
			}
			return f.explain(cmd.OutOrStdout(), u)
		},
	}
	f.add(cmd, "table or json")
	flags := cmd.Flags()
	flags.StringVar(&u.Model, "model", "", "`model` as the vendor names it (required)")
	flags.StringVar(&f.at, "at", "", "`time` of the call (2026-10-07 or RFC 3339); now if not given")
	flags.Uint64Var(&u.Tokens.Input, "input", 0, "input `tokens`, without cached ones")
	flags.Uint64Var(&u.Tokens.Output, "output", 0, "output `tokens`")
	flags.Uint64Var(&u.Tokens.CacheRead, "cache-read", 0, "`tokens` read from the cache")
	flags.Uint64Var(&u.Tokens.CacheWrite, "cache-write", 0, "`tokens` written to the cache, of any lifetime")
	flags.Uint64Var(&u.Tokens.CacheWrite5m, "cache-write-5m", 0, "`tokens` written to the cache for 5 minutes")
	flags.Uint64Var(&u.Tokens.CacheWrite1h, "cache-write-1h", 0, "`tokens` written to the cache for an hour")
	flags.Uint64Var(&u.WebSearches, "web-searches", 0, "`number` of web searches")
	flags.BoolVar(&fast, "fast", false, "fast mode")
	flags.BoolVar(&u.Batch, "batch", false, "batch request")
	flags.StringVar(&u.InferenceGeo, "inference-geo", "", "`place` of inference, such as us")
	flags.BoolVar(&counter, "counter", false, "the tokens are a counter's, of many requests of unknown size")
	return cmd
}

func (f *priceFlags) explain(w io.Writer, u pricing.Usage) error {
	t := u.Tokens
	for _, n := range []uint64{t.Input, t.Output, t.CacheRead, t.CacheWrite} {
		if n > usage.MaxTokens {
			return fmt.Errorf("%d tokens are more than any call has: at most %d", n, uint64(usage.MaxTokens))
		}
	}
	u.Time = time.Now().Truncate(time.Second)
	if f.at != "" {
		at, err := pricing.ParseTime(f.at)
		if err != nil {
			return fmt.Errorf("reading --at: want 2026-10-07 or an RFC 3339 time: %w", err)
		}
		u.Time = at
	}
	book, err := pricing.LoadFile(f.file)
	if err != nil {
		return err
	}
	e := book.Explain(u)
	switch f.format {
	case "json":
		return writeJSON(w, e)
	case "table":
		return e.WriteText(w)
	}
	return badFormat(f.format, "table", "json")
}
