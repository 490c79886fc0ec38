package ceiling

import (
	"bytes"
	"cmp"
	_ "embed" // the shipped ceilings
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

//go:embed ceilings.yaml
var shipped []byte

// shippedName is how errors and [Limit.Source] call the embedded file.
const shippedName = "shipped"

// Config is the content of the file of ceilings. Make one with [Load] or
// [LoadFile]; the zero value limits nothing. Its fields are to be read only.
type Config struct {
	// Thresholds are percents of a limit, strictly rising, each of which is an
	// alert of its own.
	Thresholds []int
	// Quiet is how long a task must have been without spend to be over. Too low
	// resolves the alert of a task whose turn is long, and raises it again.
	Quiet time.Duration
	// Fleet is the budget of everything, zero if there is none.
	Fleet Budget
	// Projects are budgets by project.
	Projects map[string]Budget

	limits map[Selector]setting
}

// Budget is what may be spent in a calendar month, UTC.
type Budget struct {
	PerMonth usage.Nano
	Source   string // where it was set
}

// Selector names the tasks that an override is for. An empty field is any.
type Selector struct{ Project, Kind, Model string }

// setting is one entry of the file: the limits that it speaks of.
type setting struct {
	ceiling Ceiling
	source  string
}

// LoadFile is [Load] of the file at path, or of the shipped ceilings alone when
// path is "".
func LoadFile(path string) (*Config, error) {
	if path == "" {
		return Load("", nil)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the file of ceilings: %w", err)
	}
	defer f.Close()
	return Load(path, f)
}

// Load lays a user's file over the shipped one; a nil user means the shipped one
// alone. Thresholds, quiet, and each limit of default that the file sets replace
// the shipped one, those that it does not mention stay; to lift one, set it to
// none. Budgets and overrides are the user's.
//
// Name is how errors and [Limit.Source] call the file. Any mistake refuses the
// whole file with an error that wraps [ErrRefused] and names all of them by line
// and field, so that the service never starts with a ceiling that nobody meant.
func Load(name string, user io.Reader) (*Config, error) {
	c := &Config{Projects: map[string]Budget{}, limits: map[Selector]setting{}}
	if err := c.lay(shippedName, bytes.NewReader(shipped)); err != nil {
		return nil, err
	}
	if user == nil {
		return c, nil
	}
	if err := c.lay(name, user); err != nil {
		return nil, err
	}
	return c, nil
}

// lay puts one file over what is there.
func (c *Config) lay(name string, r io.Reader) error {
	f, err := readFile(name, r)
	if err != nil {
		return err
	}
	if f.Thresholds != nil {
		c.Thresholds = f.Thresholds
	}
	c.Quiet = cmp.Or(f.Quiet, c.Quiet)
	c.Fleet = cmp.Or(f.Fleet, c.Fleet)
	maps.Copy(c.Projects, f.Projects)
	for sel, over := range f.limits {
		under := c.limits[sel]
		for d, l := range over.ceiling.limits {
			if l.Source == "" {
				over.ceiling.limits[d] = under.ceiling.limits[d]
			}
		}
		c.limits[sel] = over
	}
	return nil
}

// scopes are the fields that selectors name, most specific first: more fields
// before fewer, and among equals project before kind before model. Two selectors
// that name the same fields cannot both match.
var scopes = [...]struct{ project, kind, model bool }{
	{true, true, true},
	{true, true, false},
	{true, false, true},
	{false, true, true},
	{true, false, false},
	{false, true, false},
	{false, false, true},
	{},
}

// For is the ceiling of a task with these labels, any of which may be "". Each
// limit is that of the most specific selector that speaks of it.
func (c *Config) For(project, kind, model string) Ceiling {
	var out Ceiling
	for _, s := range scopes {
		if s.project && project == "" || s.kind && kind == "" || s.model && model == "" {
			continue
		}
		var sel Selector
		if s.project {
			sel.Project = project
		}
		if s.kind {
			sel.Kind = kind
		}
		if s.model {
			sel.Model = model
		}
		found, ok := c.limits[sel]
		if !ok {
			continue
		}
		for d, l := range found.ceiling.limits {
			if out.limits[d].Source == "" {
				out.limits[d] = l
			}
		}
	}
	return out
}

// Kind is a kind of work that the file names.
type Kind struct{ Name, Source string }

// Kinds are the kinds that overrides name, in order, each with the first line
// that does: a kind that the ledger has never seen is likely misspelt.
func (c *Config) Kinds() []Kind {
	var kinds []Kind
	for sel, s := range c.limits {
		if sel.Kind != "" {
			kinds = append(kinds, Kind{sel.Kind, s.source})
		}
	}
	slices.SortFunc(kinds, func(a, b Kind) int {
		// Lines of one file: a shorter source is an earlier line.
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(len(a.Source), len(b.Source)), strings.Compare(a.Source, b.Source))
	})
	return slices.CompactFunc(kinds, func(a, b Kind) bool { return a.Name == b.Name })
}

// Fingerprint is the same for configurations that judge alike, wherever in a file
// their limits stand.
func (c *Config) Fingerprint() string {
	var lines []string
	for sel, s := range c.limits {
		for _, d := range Dimensions() {
			l := s.ceiling.Of(d)
			if l.Source != "" { // a limit that is lifted is no limit that is not set
				lines = append(lines, fmt.Sprintf("%q %q %q %s %d", sel.Project, sel.Kind, sel.Model, d, l.Value))
			}
		}
	}
	slices.Sort(lines)
	return fmt.Sprint(c.Thresholds, c.Quiet, strings.Join(lines, "\n"))
}
