package receive

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// callReader reads calls one after the other. It reads values instead of
// decoding into a struct: every error names its field, numbers keep their
// exact text, and it costs a third.
type callReader struct {
	receiver *Receiver
	arrived  time.Time
	in       bytes.Buffer
	dec      *jsontext.Decoder
	interned map[string]string // labels repeat from call to call
	digest   digest
}

// call is what is read before it is known to be whole.
type call struct {
	event     *usage.Event
	writes    uint64
	hasWrites bool
	hasTime   bool
}

func (c *callReader) read(value []byte, e *usage.Event) error {
	c.in = *bytes.NewBuffer(value)
	if c.dec == nil {
		c.interned = map[string]string{}
		c.dec = jsontext.NewDecoder(&c.in)
	} else {
		c.dec.Reset(&c.in)
	}
	*e = usage.Event{Feed: usage.FeedCall, Arrived: c.arrived}
	p := call{event: e}
	start, err := c.dec.ReadToken()
	if err != nil {
		return syntax(err)
	}
	if start.Kind() != '{' {
		return refuse("wrong_type", "", "is no JSON object", "send one object per call")
	}
	for c.dec.PeekKind() != '}' {
		quoted, err := c.dec.ReadValue()
		if err != nil {
			return syntax(err)
		}
		// The decoder reuses the bytes of the name as soon as it reads on.
		name, known := c.receiver.fields[string(quoted)]
		if !known {
			return unknownField(quoted)
		}
		if err := c.field(&p, name); err != nil {
			return err
		}
	}
	if _, err := c.dec.ReadToken(); err != nil {
		return syntax(err)
	}
	if _, err := c.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return refuse("unparsable", "", "is followed by more on its line", "one object per line")
	}
	return c.finish(&p)
}

// callFields are the fields of a call by their quoted names.
func callFields() map[string]string {
	names := map[string]string{}
	for _, n := range []string{
		"id", "ts", "project", "repo", "kind", "task", "issue", "run", "session", "model", "effort", "agent",
		"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cache_write_5m_tokens",
		"cache_write_1h_tokens", "web_search_requests", "speed", "inference_geo", "batch", "cost_usd", "duration_ms",
	} {
		names[`"`+n+`"`] = n
	}
	return names
}

func unknownField(quoted []byte) error {
	return refuse("unknown_field", excerpt(strings.Trim(string(quoted), `"`)), "is no field of a call", "see docs/api.md for the fields")
}

func syntax(err error) error {
	return refuse("unparsable", fieldOf(err), "is not JSON: "+jsonError(err), "")
}

func (c *callReader) field(p *call, name string) error {
	e := p.event
	if c.dec.PeekKind() == 'n' { // null is absent
		return c.dec.SkipValue()
	}
	switch name {
	case "id":
		return c.id(name, &e.SourceID)
	case "ts":
		p.hasTime = true
		return c.time(name, &e.Time)
	case "project":
		return c.text(name, &e.Labels.Project)
	case "repo":
		return c.text(name, &e.Labels.Repo)
	case "kind":
		return c.text(name, &e.Labels.Kind)
	case "task":
		return c.text(name, &e.Labels.Task)
	case "issue":
		return c.text(name, &e.Labels.Issue)
	case "run":
		return c.text(name, &e.Labels.Run)
	case "session":
		return c.text(name, &e.Labels.Session)
	case "model":
		return c.text(name, &e.Labels.Model)
	case "effort":
		return c.text(name, &e.Labels.Effort)
	case "agent":
		return c.text(name, &e.Labels.Agent)
	case "input_tokens":
		return c.count(name, &e.Tokens.Input, usage.MaxTokens)
	case "output_tokens":
		return c.count(name, &e.Tokens.Output, usage.MaxTokens)
	case "cache_read_tokens":
		return c.count(name, &e.Tokens.CacheRead, usage.MaxTokens)
	case "cache_write_tokens":
		p.hasWrites = true
		return c.count(name, &p.writes, usage.MaxTokens)
	case "cache_write_5m_tokens":
		return c.count(name, &e.Tokens.CacheWrite5m, usage.MaxTokens)
	case "cache_write_1h_tokens":
		return c.count(name, &e.Tokens.CacheWrite1h, usage.MaxTokens)
	case "web_search_requests":
		return c.count(name, &e.WebSearches, pricing.MaxWebSearches)
	case "speed":
		return c.text(name, &e.Speed)
	case "inference_geo":
		return c.text(name, &e.InferenceGeo)
	case "batch":
		return c.flag(name, &e.Batch)
	case "cost_usd":
		return c.dollars(name, &e.Reported)
	case "duration_ms":
		return c.milliseconds(name, &e.Duration)
	}
	return unknownField([]byte(name))
}

// value reads the value of a field. It is valid until the next read.
func (c *callReader) value(name string, want jsontext.Kind, what string) ([]byte, error) {
	if k := c.dec.PeekKind(); k != want && k != 0 {
		return nil, refuse("wrong_type", name, "must be "+what, "")
	}
	v, err := c.dec.ReadValue()
	if err != nil {
		return nil, syntax(err)
	}
	return v, nil
}

func (c *callReader) text(name string, to *string) error {
	v, err := c.label(name)
	if err == nil {
		*to = c.intern(v)
	}
	return err
}

// id is a text that does not repeat.
func (c *callReader) id(name string, to *string) error {
	v, err := c.label(name)
	*to = string(v)
	return err
}

func (c *callReader) label(name string) ([]byte, error) {
	v, err := c.value(name, '"', "a string")
	if err != nil {
		return nil, err
	}
	// An escape is at most six times as long as what it stands for.
	if len(v) > 2+6*c.receiver.cfg.LabelBytes {
		return nil, c.receiver.tooLong(name)
	}
	if v = unquote(v); len(v) > c.receiver.cfg.LabelBytes {
		return nil, c.receiver.tooLong(name)
	}
	return v, nil // valid UTF-8: the decoder saw to it
}

// maxInterned bounds the table of labels: those that repeat do so soon, and
// entries for those that never do would take more than their calls.
const maxInterned = 4096

// intern returns one string for equal bytes that are not far apart.
func (c *callReader) intern(v []byte) string {
	if s, ok := c.interned[string(v)]; ok {
		return s
	}
	if len(c.interned) == maxInterned {
		clear(c.interned)
	}
	s := string(v)
	c.interned[s] = s
	return s
}

// unquote is the text of a valid JSON string. It may be a part of v.
func unquote(v []byte) []byte {
	if bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1]
	}
	out, _ := jsontext.AppendUnquote(nil, v)
	return out
}

func (c *callReader) count(name string, to *uint64, most uint64) error {
	v, err := c.value(name, '0', "a whole number")
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil || n > most {
		return refuse("bad_value", name, "must be a whole number from 0 to "+strconv.FormatUint(most, 10), "")
	}
	*to = n
	return nil
}

func (c *callReader) flag(name string, to *bool) error {
	if k := c.dec.PeekKind(); k != 't' && k != 'f' && k != 0 {
		return refuse("wrong_type", name, "must be true or false", "")
	}
	t, err := c.dec.ReadToken()
	if err != nil {
		return syntax(err)
	}
	*to = t.Bool()
	return nil
}

// dollars takes a string or a number: many clients cannot write an exact
// decimal as a number.
func (c *callReader) dollars(name string, to *usage.NullNano) error {
	if k := c.dec.PeekKind(); k != '"' && k != '0' && k != 0 {
		return refuse("wrong_type", name, "must be a decimal number of dollars", "")
	}
	v, err := c.dec.ReadValue()
	if err != nil {
		return syntax(err)
	}
	if v[0] == '"' {
		v = unquote(v)
	}
	n, err := usage.ParseDollars(string(v))
	if err != nil {
		return refuse("bad_value", name, err.Error(), "")
	}
	*to = usage.Some(n)
	return nil
}

func (c *callReader) milliseconds(name string, to *time.Duration) error {
	v, err := c.value(name, '0', "a number of milliseconds")
	if err != nil {
		return err
	}
	const month = 31 * 24 * 3600 * 1000
	ms, err := strconv.ParseFloat(string(v), 64)
	if err != nil || ms < 0 || ms > month {
		return refuse("bad_value", name, "must lie between 0 and a month", "")
	}
	*to = time.Duration(ms) * time.Millisecond
	return nil
}

func (c *callReader) time(name string, to *time.Time) error {
	v, err := c.value(name, '"', "an RFC 3339 time")
	if err != nil {
		return err
	}
	var at time.Time
	if err := at.UnmarshalText(unquote(v)); err != nil {
		return refuse("bad_time", name, "must be an RFC 3339 time such as 2026-11-30T12:00:00Z", "")
	}
	cfg := &c.receiver.cfg
	if at.Before(cfg.Earliest) {
		return refuse("too_old", name, "lies before "+cfg.Earliest.Format(time.DateOnly), "check the clock of the source")
	}
	if at.After(c.arrived.Add(cfg.Ahead)) {
		return refuse("in_future", name, "lies more than "+cfg.Ahead.String()+" in the future", "check the clock of the source")
	}
	*to = at.UTC().Truncate(time.Millisecond)
	return nil
}

// finish checks what no single field shows and derives the identity.
func (c *callReader) finish(p *call) error {
	e := p.event
	if !p.hasTime {
		return refuse("missing_ts", "ts", "is missing", "say when the call was made, in RFC 3339")
	}
	split := e.Tokens.CacheWrite5m + e.Tokens.CacheWrite1h
	if p.hasWrites && p.writes < split {
		return refuse("bad_value", "cache_write_tokens", "is less than its parts of 5 minutes and 1 hour", "it is the total of all cache writes")
	}
	e.Tokens.CacheWrite = max(p.writes, split)
	if e.Tokens.CacheWrite > usage.MaxTokens {
		return refuse("bad_value", "cache_write_5m_tokens", "must not exceed 10^11 together with cache_write_1h_tokens", "")
	}
	e.Content = c.digest.content(e)
	e.ID = e.Content
	if e.SourceID != "" {
		e.ID = usage.Hash(feedCall, e.SourceID)
	}
	return nil
}
