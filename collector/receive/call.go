package receive

import (
	"strconv"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// callReader reads calls one after the other.
type callReader struct {
	objectReader
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
	*e = usage.Event{Feed: usage.FeedCall, Arrived: c.arrived}
	p := call{event: e}
	if err := c.object(value, c.receiver.fields, func(name string) error { return c.field(&p, name) }); err != nil {
		return err
	}
	return c.finish(&p)
}

// callFields are the fields of a call by their quoted names.
func callFields() map[string]string {
	return quoted(
		"id", "ts", "project", "repo", "kind", "task", "issue", "run", "session", "model", "effort", "agent",
		"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cache_write_5m_tokens",
		"cache_write_1h_tokens", "web_search_requests", "speed", "inference_geo", "batch", "cost_usd", "duration_ms",
	)
}

func (c *callReader) field(p *call, name string) error {
	e := p.event
	switch name {
	case "id":
		return c.text(name, &e.SourceID, c.receiver.cfg.LabelBytes)
	case "ts":
		p.hasTime = true
		return c.time(name, &e.Time)
	case "project":
		return c.interning(name, &e.Labels.Project)
	case "repo":
		return c.interning(name, &e.Labels.Repo)
	case "kind":
		return c.interning(name, &e.Labels.Kind)
	case "task":
		return c.interning(name, &e.Labels.Task)
	case "issue":
		return c.interning(name, &e.Labels.Issue)
	case "run":
		return c.interning(name, &e.Labels.Run)
	case "session":
		return c.interning(name, &e.Labels.Session)
	case "model":
		return c.interning(name, &e.Labels.Model)
	case "effort":
		return c.interning(name, &e.Labels.Effort)
	case "agent":
		return c.interning(name, &e.Labels.Agent)
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
		return c.interning(name, &e.Speed)
	case "inference_geo":
		return c.interning(name, &e.InferenceGeo)
	case "batch":
		return c.flag(name, &e.Batch)
	case "cost_usd":
		return c.dollars(name, &e.Reported)
	case "duration_ms":
		return c.milliseconds(name, &e.Duration)
	}
	return c.unknownField([]byte(name))
}

// interning reads a text that repeats.
func (c *callReader) interning(name string, to *string) error {
	v, err := c.label(name, c.receiver.cfg.LabelBytes)
	if err == nil {
		*to = c.intern(v)
	}
	return err
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
