package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/store"
)

const (
	ifMatch     = "If-Match"
	ifNoneMatch = "If-None-Match"
)

// etag is the entity tag of a handoff's revision. It is strong: a revision
// never changes.
func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// tags is a list of entity tags, as If-Match and If-None-Match hold.
type tags struct {
	present bool
	any     bool // *
	list    []tag
}

type tag struct {
	weak     bool
	revision int64 // 0, which no row has, if it is none of ours
}

// fits reports whether a revision is in the list, by weak comparison: that of
// If-None-Match (RFC 9110, 13.1.2).
func (t tags) fits(revision int64) bool {
	return t.any || slices.ContainsFunc(t.list, func(g tag) bool { return g.revision == revision })
}

// strong are the revisions that the list demands, by strong comparison: that of
// If-Match (RFC 9110, 13.1.1).
func (t tags) strong() []int64 {
	var out []int64
	for _, g := range t.list {
		if g.weak {
			g.revision = 0
		}
		out = append(out, g.revision)
	}
	return out
}

// precondition is what the headers demand of the row that a write replaces.
func precondition(h http.Header) (store.Precondition, error) {
	match, err := parseTags(h, ifMatch)
	if err != nil {
		return store.Precondition{}, err
	}
	none, err := parseTags(h, ifNoneMatch)
	if err != nil {
		return store.Precondition{}, err
	}
	if none.present && !none.any {
		return store.Precondition{}, envelope.BadField(ifNoneMatch, "holds entity tags", "only * is for writes: it demands that there is no row")
	}
	if none.any && match.present {
		return store.Precondition{}, envelope.BadField(ifNoneMatch, "contradicts If-Match", "send one of them")
	}
	return store.Precondition{Revisions: match.strong(), Exists: match.any, Absent: none.any}, nil
}

// parseTags reads a header that holds * or a list of entity tags.
func parseTags(h http.Header, name string) (tags, error) {
	values := h.Values(name)
	if len(values) == 0 {
		return tags{}, nil
	}
	rest := strings.Trim(strings.Join(values, ","), " \t")
	if rest == "*" {
		return tags{present: true, any: true}, nil
	}
	out := tags{present: true}
	for {
		rest = strings.TrimLeft(rest, ", \t")
		if rest == "" {
			break
		}
		var g tag
		rest, g.weak = strings.CutPrefix(rest, "W/")
		value, after, ok := quoted(rest)
		after = strings.TrimLeft(after, " \t")
		if !ok || after != "" && after[0] != ',' {
			return tags{}, badTags(name)
		}
		g.revision = revisionOf(value)
		out.list, rest = append(out.list, g), after
	}
	if len(out.list) == 0 {
		return tags{}, badTags(name)
	}
	return out, nil
}

func quoted(s string) (value, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		return "", "", false
	}
	value, rest, ok = strings.Cut(s[1:], `"`)
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c == 0x7f {
			return "", "", false
		}
	}
	return value, rest, ok
}

// revisionOf is the revision of a tag of ours; 0 if it is none.
func revisionOf(value string) int64 {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != value {
		return 0
	}
	return n
}

func badTags(header string) error {
	return envelope.BadField(header, "is neither * nor a list of entity tags", `send the row's etag as it is, quotes included, such as "7"`)
}
