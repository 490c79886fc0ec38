package receive

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// objectReader reads JSON objects of known fields one after the other. It reads
// values instead of decoding into a struct: every error names its field,
// numbers keep their exact text, and it costs a third.
type objectReader struct {
	receiver *Receiver
	what     string // the object is, with its article
	arrived  time.Time
	in       bytes.Buffer
	dec      *jsontext.Decoder
}

// objects is a reader of objects that arrive now; what is one of them.
func (r *Receiver) objects(what string) objectReader {
	return objectReader{receiver: r, what: what, arrived: r.now()}
}

// quoted are the names of fields by how they stand in JSON.
func quoted(names ...string) map[string]string {
	out := make(map[string]string, len(names))
	for _, n := range names {
		out[`"`+n+`"`] = n
	}
	return out
}

// object reads one object. It hands the name of each of its fields to field,
// which reads the value. A field that is null counts as absent.
func (o *objectReader) object(value []byte, fields map[string]string, field func(name string) error) error {
	o.in = *bytes.NewBuffer(value)
	if o.dec == nil {
		o.dec = jsontext.NewDecoder(&o.in)
	} else {
		o.dec.Reset(&o.in)
	}
	start, err := o.dec.ReadToken()
	if err != nil {
		return syntax(err)
	}
	if start.Kind() != '{' {
		return refuse("wrong_type", "", "is no JSON object", "send one object for each")
	}
	for o.dec.PeekKind() != '}' {
		quoted, err := o.dec.ReadValue()
		if err != nil {
			return syntax(err)
		}
		// The decoder reuses the bytes of the name as soon as it reads on.
		name, known := fields[string(quoted)]
		switch {
		case !known:
			return o.unknownField(quoted)
		case o.dec.PeekKind() == 'n':
			err = o.dec.SkipValue()
		default:
			err = field(name)
		}
		if err != nil {
			return err
		}
	}
	if _, err := o.dec.ReadToken(); err != nil {
		return syntax(err)
	}
	if _, err := o.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return refuse("unparsable", "", "is followed by more on its line", "one object per line")
	}
	return nil
}

func (o *objectReader) unknownField(quoted []byte) error {
	return refuse("unknown_field", excerpt(strings.Trim(string(quoted), `"`)), "is no field of "+o.what, "see docs/api.md for the fields")
}

func syntax(err error) error {
	return refuse("unparsable", fieldOf(err), "is not JSON: "+jsonError(err), "")
}

// value reads the value of a field. It is valid until the next read.
func (o *objectReader) value(name string, want jsontext.Kind, what string) ([]byte, error) {
	if k := o.dec.PeekKind(); k != want && k != 0 {
		return nil, refuse("wrong_type", name, "must be "+what, "")
	}
	v, err := o.dec.ReadValue()
	if err != nil {
		return nil, syntax(err)
	}
	return v, nil
}

// text reads a string of at most limit bytes.
func (o *objectReader) text(name string, to *string, limit int) error {
	v, err := o.label(name, limit)
	*to = string(v)
	return err
}

// texts reads a list of at most most strings of at most limit bytes each.
func (o *objectReader) texts(name string, to *[]string, most, limit int) error {
	if k := o.dec.PeekKind(); k != '[' && k != 0 {
		return refuse("wrong_type", name, "must be a list of strings", "")
	}
	if _, err := o.dec.ReadToken(); err != nil {
		return syntax(err)
	}
	var out []string
	for o.dec.PeekKind() != ']' {
		if len(out) == most {
			return refuse("bad_value", name, "has more than "+strconv.Itoa(most)+" values", "send fewer")
		}
		var v string
		if err := o.text(name, &v, limit); err != nil {
			return err
		}
		out = append(out, v)
	}
	if _, err := o.dec.ReadToken(); err != nil {
		return syntax(err)
	}
	*to = out
	return nil
}

// label reads a string of at most limit bytes. It is valid until the next read.
func (o *objectReader) label(name string, limit int) ([]byte, error) {
	v, err := o.value(name, '"', "a string")
	if err != nil {
		return nil, err
	}
	// An escape is at most six times as long as what it stands for.
	if len(v) > 2+6*limit {
		return nil, tooLong(name, limit)
	}
	if v = unquote(v); len(v) > limit {
		return nil, tooLong(name, limit)
	}
	if bytes.IndexByte(v, 0) >= 0 {
		return nil, withNUL(name)
	}
	return v, nil // valid UTF-8: the decoder saw to it
}

// unquote is the text of a valid JSON string. It may be a part of v.
func unquote(v []byte) []byte {
	if bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1]
	}
	out, _ := jsontext.AppendUnquote(nil, v)
	return out
}

func (o *objectReader) time(name string, to *time.Time) error {
	v, err := o.value(name, '"', "an RFC 3339 time")
	if err != nil {
		return err
	}
	var at time.Time
	if err := at.UnmarshalText(unquote(v)); err != nil {
		return refuse("bad_time", name, "must be an RFC 3339 time such as 2026-11-30T12:00:00Z", "")
	}
	cfg := &o.receiver.cfg
	if at.Before(cfg.Earliest) {
		return refuse("too_old", name, "lies before "+cfg.Earliest.Format(time.DateOnly), "check the clock of the source")
	}
	if at.After(o.arrived.Add(cfg.Ahead)) {
		return refuse("in_future", name, "lies more than "+cfg.Ahead.String()+" in the future", "check the clock of the source")
	}
	*to = at.UTC().Truncate(time.Millisecond)
	return nil
}
