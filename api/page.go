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
	// maxSearch bounds a full-text query in bytes: Postgres refuses words of
	// more than 2046.
	maxSearch = 1024
)

// params are a request's parameters, each known and given once.
type params map[string]string

// parameters reads the query. One that is not known is an error rather than a
// filter that does nothing. An empty one asks for nothing: clients write what
// they do not ask for so.
func parameters(r *http.Request, known ...string) (params, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, envelope.BadField("query", "is badly escaped", "percent-encode values; separate parameters by &")
	}
	out := make(params, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v := values[name]
		switch {
		case !slices.Contains(known, name):
			hint := "this takes none"
			if len(known) > 0 {
				hint = "use " + strings.Join(known, ", ")
			}
			return nil, envelope.BadField(name, "is no parameter here", hint)
		case len(v) > 1:
			return nil, envelope.BadField(name, "is given more than once", "give it once")
		case !utf8.ValidString(v[0]) || strings.ContainsRune(v[0], 0):
			return nil, envelope.BadField(name, "is not UTF-8 without NUL", "encode it as UTF-8")
		}
		if v[0] != "" || name == advanceParameter { // which says too much to be guessed
			out[name] = v[0]
		}
	}
	return out, nil
}

func (p params) get(name string) string { return p[name] }

// limit is the size of a page. More than there is room for is no mistake: next
// says that there is more.
func (p params) limit() (int, error) {
	v, ok := p["limit"]
	if !ok {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return 0, envelope.BadField("limit", "is no whole number above 0", "a page holds "+strconv.Itoa(maxLimit)+" at most; read more with after")
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

// page cuts rows, of which one more than a page was asked for, to a page.
func page[T any](rows []T, limit int) (_ []T, more bool) {
	if len(rows) > limit {
		return rows[:limit], true
	}
	return rows, false
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
