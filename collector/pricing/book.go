// Package pricing says what a call to a model costs: an effective-dated price
// book and exact arithmetic over it.
//
// A model is matched by its exact name or its name with a dated suffix, never by
// likeness; what the book does not know is unpriced, never 0. Prices, tiers and
// modifiers are data in a YAML file; only the rules of combining them are code.
// Costs are exact rationals, rounded half to even to the nano-dollar once per
// charge.
//
// The package is pure: apart from [LoadFile] it does no I/O, and a [Book] never
// changes, so any number of goroutines may use it.
package pricing

import (
	"bytes"
	"cmp"
	_ "embed" // the shipped price book
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"
)

//go:embed prices.yaml
var shipped []byte

// shippedName is how errors and [Row.Source] call the embedded file.
const shippedName = "shipped"

// Book is a set of price rows. Make one with [Load] or [LoadFile]; the zero
// value knows no model. It is safe for concurrent use.
type Book struct {
	models map[string]*model // by name and alias
	rows   []Row
}

// model is what the book knows of one model.
type model struct {
	name string
	eras []era // newest first
}

// era is the rows of one valid_from.
type era struct {
	from  time.Time
	tiers []*compiled // ascending thresholds; the first is 0
}

// LoadFile is [Load] of the file at path, or of the shipped book alone when
// path is "".
func LoadFile(path string) (*Book, error) {
	if path == "" {
		return Load("", nil)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the price file: %w", err)
	}
	defer f.Close()
	return Load(path, f)
}

// Load lays a user's price file over the shipped one; a nil user means the
// shipped book alone. A user's row replaces the shipped row of the same model,
// valid_from and above_prompt_tokens and is added otherwise: to replace the
// price of a dated row, repeat its date. A user's alias replaces the shipped one
// of that name.
//
// Name is how errors call the file. Any row that breaks a rule of sanity, any
// unknown key and any duplicate refuse the whole file with an error that wraps
// [ErrRefused] and names all of them, so that the service never starts with
// wrong dollars.
func Load(name string, user io.Reader) (*Book, error) {
	base, err := readFile(shippedName, bytes.NewReader(shipped))
	if err != nil {
		return nil, err
	}
	if user == nil {
		return newBook(base)
	}
	over, err := readFile(name, user)
	if err != nil {
		return nil, err
	}
	return newBook(base, over)
}

// newBook merges files, the later over the earlier.
func newBook(files ...file) (*Book, error) {
	rows, aliases := map[string]Row{}, map[string]alias{}
	for _, f := range files {
		for _, r := range f.rows {
			rows[r.ID()] = r
		}
		maps.Copy(aliases, f.aliases)
	}
	b := &Book{models: map[string]*model{}, rows: slices.SortedFunc(maps.Values(rows), compareRows)}
	err := errors.Join(b.index(), b.alias(aliases))
	if err != nil {
		return nil, err
	}
	return b, nil
}

// compareRows orders by provider and model, then newest first, then by tier.
func compareRows(a, b Row) int {
	return cmp.Or(
		cmp.Compare(a.Provider, b.Provider),
		cmp.Compare(a.Model, b.Model),
		b.ValidFrom.Compare(a.ValidFrom),
		cmp.Compare(a.AbovePromptTokens, b.AbovePromptTokens),
	)
}

// index compiles the rows.
func (b *Book) index() error {
	var errs []error
	for _, r := range b.rows {
		m := b.models[r.Model]
		if m == nil {
			m = &model{name: r.Model}
			b.models[r.Model] = m
		}
		i := slices.IndexFunc(m.eras, func(e era) bool { return e.from.Equal(r.ValidFrom) })
		if i < 0 {
			i = len(m.eras)
			m.eras = append(m.eras, era{from: r.ValidFrom})
		}
		m.eras[i].tiers = append(m.eras[i].tiers, compile(r))
	}
	// Rows of one model may name several providers, and come in their order.
	for _, m := range b.models {
		slices.SortFunc(m.eras, func(x, y era) int { return y.from.Compare(x.from) })
		for _, e := range m.eras {
			slices.SortFunc(e.tiers, func(x, y *compiled) int { return cmp.Compare(x.row.AbovePromptTokens, y.row.AbovePromptTokens) })
			if low := e.tiers[0].row; low.AbovePromptTokens > 0 {
				errs = append(errs, fmt.Errorf("%w: %s: row %s: no row of this model and valid_from for prompts up to %d tokens",
					ErrRefused, low.Source, low.ID(), low.AbovePromptTokens))
			}
		}
	}
	return errors.Join(errs...)
}

func (b *Book) alias(aliases map[string]alias) error {
	var errs []error
	names := maps.Clone(b.models) // an alias of an alias is refused
	for name, a := range aliases {
		switch {
		case names[name] != nil:
			errs = append(errs, fmt.Errorf("%w: %s: alias %s has rows of its own", ErrRefused, a.source, name))
		case names[a.model] == nil:
			errs = append(errs, fmt.Errorf("%w: %s: alias %s: no row for model %s", ErrRefused, a.source, name, a.model))
		default:
			b.models[name] = names[a.model]
		}
	}
	return errors.Join(errs...)
}

// Rows are all rows by provider and model, the newest first, then by tier. The
// caller owns the slice.
func (b *Book) Rows() []Row { return slices.Clone(b.rows) }

// RowsOf are the rows of one model, matched like a charge's; empty if the book
// does not know it.
func (b *Book) RowsOf(name string) []Row {
	m := b.model(name)
	if m == nil {
		return nil
	}
	var rows []Row
	for _, e := range m.eras {
		for _, t := range e.tiers {
			rows = append(rows, t.row)
		}
	}
	return rows
}

// RowsAt are the rows that price charges of one time, in the order of Rows.
func (b *Book) RowsAt(t time.Time) []Row {
	return slices.DeleteFunc(b.Rows(), func(r Row) bool {
		e := b.models[r.Model].at(t)
		return e == nil || !e.from.Equal(r.ValidFrom)
	})
}

// Names are the names and aliases that the book has, each with what [Book.Canonical]
// makes of it.
func (b *Book) Names() map[string]string {
	out := make(map[string]string, len(b.models))
	for name := range b.models {
		out[name] = b.Canonical(name)
	}
	return out
}

// Canonical is the name of the book's model that name means: an alias or a
// dated name gives the model's own. A name that the book does not know is
// returned as it is.
func (b *Book) Canonical(name string) string {
	if m := b.model(name); m != nil {
		return m.name
	}
	return name
}

// model finds a name: exactly (or by alias), else without its dated suffix.
func (b *Book) model(name string) *model {
	if m := b.models[name]; m != nil {
		return m
	}
	if base, ok := undated(name); ok {
		return b.models[base]
	}
	return nil
}

// undated cuts the suffix -YYYYMMDD off a name, the form in which Anthropic
// dates snapshots. Digits that are no date are part of the name.
func undated(name string) (string, bool) {
	const suffix = len("-20250929")
	cut := len(name) - suffix
	if cut <= 0 || name[cut] != '-' {
		return name, false
	}
	n := 0
	for _, c := range []byte(name[cut+1:]) {
		if c < '0' || c > '9' {
			return name, false
		}
		n = n*10 + int(c-'0')
	}
	year, month, day := n/10000, n/100%100, n%100
	if year < 2000 || year >= 2100 || month < 1 || month > 12 || day < 1 || day > 31 {
		return name, false
	}
	return name[:cut], true
}

// at is the newest era that is valid at t, or nil.
func (m *model) at(t time.Time) *era {
	for i := range m.eras {
		if e := &m.eras[i]; e.from.IsZero() || !t.Before(e.from) {
			return e
		}
	}
	return nil
}

// tier is the row for a request of this prompt size.
func (e *era) tier(prompt uint64) *compiled {
	t := e.tiers[0]
	for _, higher := range e.tiers[1:] {
		if prompt > higher.row.AbovePromptTokens {
			t = higher
		}
	}
	return t
}
