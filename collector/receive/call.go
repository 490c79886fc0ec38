package receive

import (
	"bytes"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// callReader reads calls one after the other. It reads tokens instead of
// decoding into a struct: every error names its field, numbers keep their
// exact text, and it costs a third.
type callReader struct {
	receiver *Receiver
	arrived  time.Time
	in       bytes.Reader
	dec      *jsontext.Decoder
}

// call is what is read before it is known to be whole.
type call struct {
	event     *usage.Event
	writes    uint64
	hasWrites bool
	hasTime   bool
}

func (c *callReader) read(value []byte, e *usage.Event) error {
	c.in.Reset(value)
	if c.dec == nil {
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
		name, err := c.dec.ReadToken()
		if err != nil {
			return syntax(err)
		}
		if err := c.field(&p, name.String()); err != nil {
			return err
		}
	}
	if _, err := c.dec.ReadToken(); err != nil {
		return syntax(err)
	}
	if c.dec.PeekKind() != 0 {
		return refuse("unparsable", "", "is followed by more on its line", "one object per line")
	}
	return p.finish()
}

func syntax(err error) error { return refuse("unparsable", "", "is not JSON: "+jsonError(err), "") }

func (c *callReader) field(p *call, name string) error {
	e := p.event
	if c.dec.PeekKind() == 'n' { // null is absent
		return c.dec.SkipValue()
	}
	switch name {
	case "id":
		return c.text(name, &e.SourceID)
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
		return c.count(name, &e.Tokens.Input)
	case "output_tokens":
		return c.count(name, &e.Tokens.Output)
	case "cache_read_tokens":
		return c.count(name, &e.Tokens.CacheRead)
	case "cache_write_tokens":
		p.hasWrites = true
		return c.count(name, &p.writes)
	case "cache_write_5m_tokens":
		return c.count(name, &e.Tokens.CacheWrite5m)
	case "cache_write_1h_tokens":
		return c.count(name, &e.Tokens.CacheWrite1h)
	case "web_search_requests":
		return c.count(name, &e.WebSearches)
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
	default:
		return refuse("unknown_field", name, "is no field of a call", "see docs/api.md for the fields")
	}
}

func (c *callReader) token(name string, want jsontext.Kind, what string) (jsontext.Token, error) {
	if k := c.dec.PeekKind(); k != want && k != 0 {
		return jsontext.Token{}, refuse("wrong_type", name, "must be "+what, "")
	}
	t, err := c.dec.ReadToken()
	if err != nil {
		return t, syntax(err)
	}
	return t, nil
}

func (c *callReader) text(name string, to *string) error {
	t, err := c.token(name, '"', "a string")
	if err != nil {
		return err
	}
	*to = t.String()
	return c.receiver.label(name, *to)
}

func (c *callReader) count(name string, to *uint64) error {
	t, err := c.token(name, '0', "a whole number")
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(t.String(), 10, 64)
	if err != nil || n > usage.MaxTokens {
		return refuse("bad_value", name, "must be a whole number from 0 to 10^12", "")
	}
	*to = n
	return nil
}

func (c *callReader) flag(name string, to *bool) error {
	switch c.dec.PeekKind() {
	case 't', 'f':
		t, err := c.dec.ReadToken()
		*to = err == nil && t.Bool()
		return err
	case 0:
		return syntax(c.dec.SkipValue())
	}
	return refuse("wrong_type", name, "must be true or false", "")
}

// dollars takes a string or a number: many clients cannot write an exact
// decimal as a number.
func (c *callReader) dollars(name string, to *usage.NullNano) error {
	if k := c.dec.PeekKind(); k != '"' && k != '0' && k != 0 {
		return refuse("wrong_type", name, "must be a decimal number of dollars", "")
	}
	t, err := c.dec.ReadToken()
	if err != nil {
		return syntax(err)
	}
	n, err := usage.ParseDollars(t.String())
	if err != nil {
		return refuse("bad_value", name, err.Error(), "")
	}
	*to = usage.Some(n)
	return nil
}

func (c *callReader) milliseconds(name string, to *time.Duration) error {
	t, err := c.token(name, '0', "a number of milliseconds")
	if err != nil {
		return err
	}
	const month = 31 * 24 * 3600 * 1000
	ms, err := strconv.ParseFloat(t.String(), 64)
	if err != nil || ms < 0 || ms > month {
		return refuse("bad_value", name, "must lie between 0 and a month", "")
	}
	*to = time.Duration(ms) * time.Millisecond
	return nil
}

func (c *callReader) time(name string, to *time.Time) error {
	t, err := c.token(name, '"', "an RFC 3339 time")
	if err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339Nano, t.String())
	if err != nil {
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
func (p *call) finish() error {
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
		return refuse("bad_value", "cache_write_5m_tokens", "must be a whole number from 0 to 10^12", "")
	}
	e.Content = contentOf(e)
	e.ID = e.Content
	if e.SourceID != "" {
		e.ID = usage.Hash(feedCall, e.SourceID)
	}
	return nil
}

// contentOf is the identity of everything that a call says.
func contentOf(e *usage.Event) usage.ID {
	n := func(v uint64) string { return strconv.FormatUint(v, 10) }
	l, t := &e.Labels, &e.Tokens
	cost := ""
	if e.Reported.Valid {
		cost = strconv.FormatInt(int64(e.Reported.Nano), 10)
	}
	return usage.Hash("call content", e.SourceID, strconv.FormatInt(e.Time.UnixMilli(), 10),
		l.Project, l.Repo, l.Kind, l.Task, l.Issue, l.Run, l.Session, l.Model, l.Effort, l.Agent,
		n(t.Input), n(t.Output), n(t.CacheRead), n(t.CacheWrite), n(t.CacheWrite5m), n(t.CacheWrite1h),
		n(e.WebSearches), e.Speed, strconv.FormatBool(e.Batch), e.InferenceGeo, cost, n(uint64(e.Duration)))
}
