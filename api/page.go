package api

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
)

const (
	defaultLimit = 50
	maxLimit     = 500
	// maxPageBytes bounds the texts of a page: 500 handoffs of the longest that
	// can be configured are 125 MiB.
	maxPageBytes = 8 << 20
)

// params are a request's parameters, each known and given once.
type params map[string]string

// parameters reads the query. One that is not known is an error rather than a
// filter that does nothing. An empty one asks for nothing: clients write what
// they do not ask for so.
func parameters(r *http.Request, known ...string) (params, error) {
	values, err := query(r)
	if err != nil {
		return nil, err
	}
	out := make(params, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v := values[name]
		switch {
		case !slices.Contains(known, name):
			hint := "leave it out: this route takes none"
			if len(known) > 0 {
				hint = "use " + strings.Join(known, ", ")
			}
			return nil, envelope.BadField(name, "is no parameter here", hint)
		case len(v) > 1:
			return nil, twice(name)
		case !utf8.ValidString(v[0]) || strings.ContainsRune(v[0], 0):
			return nil, envelope.BadField(name, "is not UTF-8 without NUL", "encode it as UTF-8")
		}
		if v[0] != "" || name == advanceParameter { // which says too much to be guessed
			out[name] = v[0]
		}
	}
	return out, nil
}

// query is the request's query.
func query(r *http.Request) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, envelope.BadField("query", "is badly escaped", "percent-encode values; separate parameters by &")
	}
	return values, nil
}

func twice(name string) error {
	return envelope.BadField(name, "is given more than once", "give it once")
}

func (p params) get(name string) string { return p[name] }

// limit is the size of a page. More than there is room for is no mistake: next
// says that there is more.
func (p params) limit() (int, error) { return p.count("limit", "after") }

// count is how many rows a parameter asks for, of which the rest can be read
// with another.
func (p params) count(name, more string) (int, error) {
	v, ok := p[name]
	if !ok {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return 0, envelope.BadField(name, "is no whole number above 0", "a page holds "+strconv.Itoa(maxLimit)+" at most; read more with "+more)
	}
	return min(n, maxLimit), nil
}

// id is a message's id; ok tells whether it was given.
func (p params) id(name string) (n int64, ok bool, err error) {
	v, ok := p[name]
	if !ok {
		return 0, false, nil
	}
	if n, err = strconv.ParseInt(v, 10, 64); err != nil || n < 0 {
		return 0, false, envelope.BadField(name, "is no id of a message", "use the id of the last message that was read, or 0")
	}
	return n, true, nil
}

func (p params) instant(name string) (time.Time, error) {
	v, ok := p[name]
	if !ok {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, v); err == nil && sane(t) {
			return t.UTC(), nil
		}
	}
	return time.Time{}, envelope.BadField(name, "is no time", "use RFC 3339, such as 2026-11-30T12:00:00Z, or a date; in a URL write + as %2B")
}

// sane keeps out of the store what it cannot hold.
func sane(t time.Time) bool { return t.Year() >= 1970 && t.Year() < 10_000 }

// page cuts rows to a page: limit of them at most, and as many as fit in
// [maxPageBytes], but always one. size is that of a row's texts.
func page[T any](rows []T, limit int, size func(*T) int) (_ []T, more bool) {
	sum := 0
	for i := range rows {
		sum += size(&rows[i])
		if i >= limit || i > 0 && sum > maxPageBytes {
			return rows[:i], true
		}
	}
	return rows, false
}

// list is a list in the order of time and id, the newest first.
type list[T, W any] struct {
	read  func(limit int) ([]T, error)
	place func(*T) (time.Time, uuid.UUID)
	size  func(*T) int
	wire  func(*T) W
}

// page is one page as the wire has it, and the cursor of the next one; nil at
// the end.
func (l list[T, W]) page(limit int) (_ []W, next *string, err error) {
	rows, err := l.read(limit + 1) // one more tells whether there is a next page
	if err != nil {
		return nil, nil, err
	}
	rows, more := page(rows, limit, l.size)
	if more {
		c := cursor(l.place(&rows[len(rows)-1]))
		next = &c
	}
	return each(rows, l.wire), next, nil
}

// each is what the wire has of rows, never nil.
func each[T, W any](rows []T, wire func(*T) W) []W {
	out := make([]W, 0, len(rows))
	for i := range rows {
		out = append(out, wire(&rows[i]))
	}
	return out
}

// place reads which page of a list is asked for: its size, and the row before
// it, zero for the first page.
func (p params) place() (limit int, at time.Time, id uuid.UUID, err error) {
	if limit, err = p.limit(); err != nil {
		return 0, at, id, err
	}
	at, id, err = p.cursor()
	return limit, at, id, err
}

// cursor is a place in a list, opaque to clients. The store's times are whole
// microseconds.
func cursor(at time.Time, id uuid.UUID) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(at.UnixMicro()))
	return base64.RawURLEncoding.EncodeToString(append(b, id[:]...))
}

// cursor reads after; zero without one.
func (p params) cursor() (at time.Time, id uuid.UUID, err error) {
	v, ok := p["after"]
	if !ok {
		return at, id, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(v)
	if err == nil && len(b) == 8+len(id) {
		at = time.UnixMicro(int64(binary.BigEndian.Uint64(b))).UTC()
		copy(id[:], b[8:])
		if sane(at) {
			return at, id, nil
		}
	}
	return time.Time{}, uuid.Nil, envelope.BadField("after", fmt.Sprintf("%q is no next of an earlier page", excerpt(v)), "pass next on as it came")
}

// excerpt is the start of what a client sent.
func excerpt(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
