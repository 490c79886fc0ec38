package pricing

import (
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// Modifier is a factor that a charge's rates were multiplied by.
type Modifier struct {
	Name   string `json:"name"` // the key in the price file
	Factor Factor `json:"factor"`
}

// Line is one term of a cost. Rate and USD are exact decimals; USD is before
// the modifiers.
type Line struct {
	Class string `json:"class"` // the key of the rate in the price file
	Count uint64 `json:"count"` // tokens, or searches
	// Rate is dollars per million tokens or per thousand searches, null if the
	// row has none.
	Rate NullRate `json:"rate"`
	USD  *string  `json:"usd"`
}

// Explanation says how a price came about.
type Explanation struct {
	Model     string    `json:"model"`
	MatchedAs string    `json:"matched_as,omitempty"` // the model of the book; "" if none
	Time      time.Time `json:"time"`

	Row      *Row   `json:"row"`
	RowRef   string `json:"row_ref,omitempty"`
	Unpriced string `json:"unpriced,omitempty"` // why there is no price

	PromptTokens uint64 `json:"prompt_tokens"`
	Tier         string `json:"tier,omitempty"` // which, and why

	Lines     []Line     `json:"lines"`
	Modifiers []Modifier `json:"modifiers"`
	Exact     *string    `json:"exact_usd"` // before rounding

	ComputedNano   *int64   `json:"computed_nano"`
	ComputedUSD    *string  `json:"computed_usd"`
	SavingsNano    *int64   `json:"cache_savings_nano"`
	SavingsUSD     *string  `json:"cache_savings_usd"`
	UnpricedTokens uint64   `json:"unpriced_tokens"`
	Approximate    bool     `json:"approximate"`
	Notes          []string `json:"notes"` // assumptions, absent prices
}

// Explain prices u like [Book.Price] and says why. Meant for people: it
// allocates.
func (b *Book) Explain(u Usage) Explanation {
	p := b.Price(u)
	e := Explanation{
		Model: u.Model, Time: u.Time.UTC(), PromptTokens: u.Tokens.Prompt(),
		Lines: []Line{}, Modifiers: []Modifier{}, Notes: []string{},
		ComputedNano: p.Computed.Ptr(), ComputedUSD: text(p.Computed),
		SavingsNano: p.Savings.Ptr(), SavingsUSD: text(p.Savings),
		UnpricedTokens: p.UnpricedTokens, Approximate: p.Approximate,
	}
	if m := b.model(u.Model); m != nil {
		e.MatchedAs = m.name
	}
	row, era := b.find(&u)
	if row == nil {
		e.Unpriced = b.whyUnpriced(&u)
		return e
	}
	shown := row.row
	e.Row, e.RowRef, e.Tier = &shown, row.ref, tierText(&u, row, era)
	e.arithmetic(&u, row)
	e.notes(&u, row, era)
	if !p.Computed.Valid {
		e.Exact, e.Unpriced = nil, "no token of a class that the row has a price for"
		if slices.ContainsFunc(e.Lines, func(l Line) bool { return l.USD != nil }) {
			e.Unpriced = "the amount exceeds 64 bits of nano-dollars"
		}
	}
	return e
}

func text(n usage.NullNano) *string {
	if !n.Valid {
		return nil
	}
	s := n.Nano.String()
	return &s
}

func (b *Book) whyUnpriced(u *Usage) string {
	m := b.model(u.Model)
	if m == nil {
		return fmt.Sprintf("no row for model %s", u.Model)
	}
	first := m.eras[len(m.eras)-1].from
	return fmt.Sprintf("model %s has a price only from %s on", m.name, formatTime(first))
}

func tierText(u *Usage, row *compiled, era *era) string {
	switch {
	case len(era.tiers) == 1:
		return "the only one"
	case !u.WholeRequest:
		return "the lowest, as the sizes of the requests are not known"
	case row.row.AbovePromptTokens > 0:
		return fmt.Sprintf("above %d prompt tokens, for the whole request", row.row.AbovePromptTokens)
	}
	return fmt.Sprintf("the lowest, up to %d prompt tokens", era.tiers[1].row.AbovePromptTokens)
}

// arithmetic itemises the cost in the order of the price file.
func (e *Explanation) arithmetic(u *Usage, row *compiled) {
	c, _ := countsOf(u.Tokens)
	set := factorsOf(u)
	names := [classes]string{"input", "output", "cache_read", "cache_write_5m", "cache_write_1h"}
	for class, n := range c {
		if n > 0 {
			e.line(names[class], n, row.rates[class], dollars)
		}
	}
	if u.WebSearches > 0 {
		e.line("web_search", u.WebSearches, row.row.WebSearch, searchDollars)
	}
	e.Modifiers = append(e.Modifiers, row.row.factors(set)...)
	exact := row.exactCost(&c, u.WebSearches, set)
	s := exactDecimal(exact.Mul(exact, big.NewRat(1, 1e9)))
	e.Exact = &s
}

func (e *Explanation) line(class string, n uint64, rate NullRate, price func(uint64, Rate) *big.Rat) {
	l := Line{Class: class, Count: n, Rate: rate}
	if rate.Valid {
		s := exactDecimal(price(n, rate.Rate))
		l.USD = &s
	}
	e.Lines = append(e.Lines, l)
}

func (e *Explanation) notes(u *Usage, row *compiled, era *era) {
	note := func(when bool, format string, args ...any) {
		if when {
			e.Notes = append(e.Notes, fmt.Sprintf(format, args...))
		}
	}
	_, rest := countsOf(u.Tokens)
	note(rest > 0, "%d cache writes of unknown lifetime are priced as 5-minute writes", rest)
	note(!u.WholeRequest && len(era.tiers) > 1, "a counter of a tiered model: long prompts cost more than this")
	note(u.Speed == SpeedFast && row.row.Fast == 0, "the row has no price for fast mode: standard price")
	note(u.Batch && row.row.Batch == 0, "the row has no price for batches: standard price")
	note(u.WebSearches > 0 && !row.row.WebSearch.Valid, "the row has no price for web searches: they add nothing")
	note(factorsOf(u)&factorUS != 0 && row.row.USInference == 0, "US inference of this model is not surcharged")
	note(u.WebSearches > 0 && len(e.Modifiers) > 0, "modifiers apply to tokens, not to web searches")
	note(e.UnpricedTokens > 0, "%d tokens are of classes without a price and add nothing", e.UnpricedTokens)
}

// WriteText writes the explanation for a terminal.
func (e Explanation) WriteText(w io.Writer) error {
	var s strings.Builder
	tw := tabwriter.NewWriter(&s, 0, 0, 2, ' ', 0)
	e.writeHead(tw)
	e.writeLines(tw)
	e.writeResult(tw)
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, n := range e.Notes {
		fmt.Fprintln(&s, "note:", n)
	}
	_, err := io.WriteString(w, s.String())
	return err
}

func (e Explanation) writeHead(w *tabwriter.Writer) {
	name := e.Model
	if e.MatchedAs != "" && e.MatchedAs != e.Model {
		name += " (matched as " + e.MatchedAs + ")"
	}
	fmt.Fprintf(w, "model:\t%s\n", name)
	fmt.Fprintf(w, "time:\t%s\n", formatTime(e.Time))
	if e.Unpriced != "" {
		fmt.Fprintf(w, "unpriced:\t%s\n", e.Unpriced)
	}
	if e.Row != nil {
		fmt.Fprintf(w, "row:\t%s (%s)\n", e.RowRef, e.Row.Source)
		fmt.Fprintf(w, "tier:\t%s (prompt: %d tokens)\n", e.Tier, e.PromptTokens)
	}
}

func (e Explanation) writeLines(w *tabwriter.Writer) {
	if len(e.Lines) == 0 {
		return
	}
	factor := ""
	for _, m := range e.Modifiers {
		factor += " × " + m.Factor.String()
		fmt.Fprintf(w, "modifier:\t%s × %s\n", m.Name, m.Factor)
	}
	fmt.Fprintln(w)
	for _, l := range e.Lines {
		per, by := "million", factor
		if l.Class == "web_search" {
			per, by = "thousand", ""
		}
		if l.USD == nil {
			fmt.Fprintf(w, "%s\t%d\tno price\n", l.Class, l.Count)
			continue
		}
		fmt.Fprintf(w, "%s\t%d × %s US$ per %s\t= %s%s\n", l.Class, l.Count, l.Rate, per, *l.USD, by)
	}
	fmt.Fprintln(w)
}

func (e Explanation) writeResult(w *tabwriter.Writer) {
	or := func(s *string) string {
		if s == nil {
			return "unknown"
		}
		return *s + " US$"
	}
	if e.Exact != nil && e.ComputedUSD != nil && *e.Exact != *e.ComputedUSD {
		fmt.Fprintf(w, "exact:\t%s US$, rounded half to even to the nano-dollar:\n", *e.Exact)
	}
	about := ""
	if e.Approximate {
		about = " (approximate)"
	}
	fmt.Fprintf(w, "cost:\t%s%s\n", or(e.ComputedUSD), about)
	fmt.Fprintf(w, "cache savings:\t%s\n", or(e.SavingsUSD))
	fmt.Fprintf(w, "unpriced tokens:\t%s\n", strconv.FormatUint(e.UnpricedTokens, 10))
}
