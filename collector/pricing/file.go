package pricing

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxFile is a hundred times the shipped book.
const maxFile = 1 << 20

// file is the content of one price file.
type file struct {
	rows    []Row
	aliases map[string]alias
}

// alias is another name of a model.
type alias struct {
	model  string
	source string
}

// reader walks the YAML nodes of one file. It reads scalars as text, because
// YAML's own numbers are floats, and knows the line of everything it refuses.
type reader struct{ name string }

func readFile(name string, r io.Reader) (file, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return file{}, fmt.Errorf("reading prices from %s: %w", name, err)
	}
	if len(text) > maxFile {
		return file{}, fmt.Errorf("%w: %s: over %d bytes", ErrRefused, name, maxFile)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF): // an empty file lays nothing over
		return file{}, nil
	case err != nil:
		return file{}, fmt.Errorf("%w: %s: %w", ErrRefused, name, err)
	}
	d := reader{name}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return file{}, d.refuse(&more, "more than one YAML document")
	}
	return d.file(doc.Content[0])
}

func (d reader) refuse(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrRefused, d.source(n), fmt.Sprintf(format, args...))
}

func (d reader) source(n *yaml.Node) string { return d.name + ":" + strconv.Itoa(n.Line) }

// fields calls set for each key of a mapping; set reports false for a key that
// it does not know.
func (d reader) fields(n *yaml.Node, what string, set func(key string, k, v *yaml.Node) (bool, error)) error {
	if n.Kind != yaml.MappingNode {
		return d.refuse(n, "%s must be a mapping", what)
	}
	var errs []error
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			errs = append(errs, d.refuse(k, "a key of %s must be plain text", what))
			continue
		}
		if seen[k.Value] {
			errs = append(errs, d.refuse(k, "key %q of %s is given twice", k.Value, what))
			continue
		}
		seen[k.Value] = true
		known, err := set(k.Value, k, v)
		if !known {
			err = d.refuse(k, "unknown key %q of %s", k.Value, what)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (d reader) file(n *yaml.Node) (file, error) {
	f := file{aliases: map[string]alias{}}
	err := d.fields(n, "the price file", func(key string, _, v *yaml.Node) (bool, error) {
		switch key {
		case "rows":
			return true, d.rows(v, &f)
		case "aliases":
			return true, d.aliases(v, &f)
		}
		return false, nil
	})
	return f, err
}

func (d reader) rows(n *yaml.Node, f *file) error {
	if n.Kind != yaml.SequenceNode {
		return d.refuse(n, "rows must be a list")
	}
	var errs []error
	seen := make(map[string]string, len(n.Content))
	for _, item := range n.Content {
		row, err := d.row(item)
		if err == nil {
			err = row.check()
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if first, ok := seen[row.ID()]; ok {
			errs = append(errs, d.refuse(item, "row %s is given twice, first at %s", row.ID(), first))
			continue
		}
		seen[row.ID()] = row.Source
		f.rows = append(f.rows, row)
	}
	return errors.Join(errs...)
}

func (d reader) aliases(n *yaml.Node, f *file) error {
	return d.fields(n, "aliases", func(key string, k, v *yaml.Node) (bool, error) {
		if err := checkName(key); err != nil {
			return true, d.refuse(k, "alias: %v", err)
		}
		model, err := d.text(v, key)
		f.aliases[key] = alias{model: model, source: d.source(k)}
		return true, err
	})
}

func (d reader) row(n *yaml.Node) (Row, error) {
	r := Row{Source: d.source(n)}
	err := d.fields(n, "a row", func(key string, _, v *yaml.Node) (bool, error) { return d.field(&r, key, v) })
	if err != nil {
		return r, err
	}
	if err := checkName(r.Model); err != nil {
		return r, d.refuse(n, "model: %v", err)
	}
	return r, nil
}

func (d reader) field(r *Row, key string, v *yaml.Node) (known bool, err error) {
	switch key {
	case "provider":
		r.Provider, err = d.text(v, key)
	case "model":
		r.Model, err = d.text(v, key)
	case "valid_from":
		r.ValidFrom, err = d.time(v, key)
	case "above_prompt_tokens":
		r.AbovePromptTokens, err = d.number(v, key, 0)
	case "input":
		r.Input, err = d.rate(v, key)
	case "output":
		r.Output, err = d.rate(v, key)
	case "cache_write_5m":
		r.CacheWrite5m, err = d.rate(v, key)
	case "cache_write_1h":
		r.CacheWrite1h, err = d.rate(v, key)
	case "cache_read":
		r.CacheRead, err = d.rate(v, key)
	case "web_search_per_thousand":
		r.WebSearch, err = d.rate(v, key)
	case "batch":
		r.Batch, err = d.factor(v, key)
	case "us_inference":
		r.USInference, err = d.factor(v, key)
	case "fast":
		r.Fast, err = d.factor(v, key)
	default:
		return false, nil
	}
	return true, err
}

// text refuses null too: an empty value is more likely forgotten than meant.
func (d reader) text(n *yaml.Node, key string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "" {
		return "", d.refuse(n, "%s must be a plain value", key)
	}
	return n.Value, nil
}

func (d reader) time(n *yaml.Node, key string) (time.Time, error) {
	s, err := d.text(n, key)
	if err != nil {
		return time.Time{}, err
	}
	t, err := ParseTime(s)
	if err != nil {
		return t, d.refuse(n, "%s %q is neither a date (2026-01-31) nor an RFC 3339 time", key, s)
	}
	if t.IsZero() { // would read as "since ever"
		return t, d.refuse(n, "%s %q is not in this century", key, s)
	}
	return t, nil
}

func (d reader) number(n *yaml.Node, key string, places int) (uint64, error) {
	s, err := d.text(n, key)
	if err != nil {
		return 0, err
	}
	v, err := parseDecimal(s, places)
	if err != nil {
		return 0, d.refuse(n, "%s %q: %v", key, s, err)
	}
	return v, nil
}

func (d reader) rate(n *yaml.Node, key string) (NullRate, error) {
	v, err := d.number(n, key, rateDecimals)
	return NullRate{Rate: Rate(v), Valid: err == nil}, err
}

func (d reader) factor(n *yaml.Node, key string) (Factor, error) {
	v, err := d.number(n, key, factorDecimals)
	if err == nil && v == 0 {
		err = d.refuse(n, "%s is 0: nothing is free by a factor", key)
	}
	return Factor(v), err
}
