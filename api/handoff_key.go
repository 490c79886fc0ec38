package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
)

// maxKey bounds a handoff's key in bytes: it is in a URL and in an index.
const maxKey = 512

// checkKey says what a handoff's key must be. A proxy may decode a key on its
// way, so what a decoded path could not say is no key.
func checkKey(key string) error {
	const field = "handoff_key"
	switch {
	case strings.TrimSpace(key) == "":
		return envelope.BadField(field, "is missing", "name the stream of work, such as owner/repo#12")
	case len(key) > maxKey:
		return tooLong(field, maxKey)
	case !utf8.ValidString(key):
		return envelope.BadField(field, "is not valid UTF-8", "encode it as UTF-8")
	case strings.ContainsFunc(key, unicode.IsControl):
		return envelope.BadField(field, "contains a control character", "leave it out")
	case slices.ContainsFunc(strings.Split(key, "/"), func(s string) bool { return s == "." || s == ".." }):
		return envelope.BadField(field, `contains "." or ".." between slashes`, "clients and proxies resolve them in a path; use another name")
	}
	for _, sub := range subresources {
		if strings.HasSuffix(key, sub) {
			return envelope.BadField(field, fmt.Sprintf("ends in %q", sub), "a path decoded by a proxy could not be told from that resource; use another name")
		}
	}
	return nil
}

// chatPrefix is where the chat routes are served a second time: the path of the
// public ingress.
const chatPrefix = "/api/v1/chat"

// subresources are what follows a key in a path.
var subresources = []string{"/revisions", "/restore"}

// named are the paths with a name in them that may hold slashes, and what may
// follow it.
var named = []struct {
	prefix string
	subs   []string
}{
	{"/handoffs/", subresources},
	{chatPrefix + "/handoffs/", subresources},
	{"/v1/tasks/", taskSubresources},
}

// nameSegment makes a name one segment of the raw path, which the router reads:
// clients send its slashes as %2F, a proxy may have decoded them.
func nameSegment(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if raw := namedPath(r.URL); raw != "" {
			with, u := *r, *r.URL
			u.RawPath = raw
			with.URL = &u
			r = &with
		}
		next.ServeHTTP(w, r)
	})
}

// namedPath is the escaped path with its name as one segment, or "" if it is no
// path with a name.
func namedPath(u *url.URL) string {
	path := u.EscapedPath()
	for _, n := range named {
		name, ok := strings.CutPrefix(path, n.prefix)
		if !ok {
			continue
		}
		sub := ""
		for _, s := range n.subs {
			if before, ok := strings.CutSuffix(name, s); ok && before != "" {
				name, sub = before, s
				break
			}
		}
		decoded, err := url.PathUnescape(name)
		if err != nil || decoded == "" {
			return ""
		}
		return n.prefix + url.PathEscape(decoded) + sub
	}
	return ""
}

// pathKey is the key that [nameSegment] left in the path.
func pathKey(r *http.Request) (string, error) {
	key, err := url.PathUnescape(chi.URLParam(r, "key"))
	if err != nil {
		return "", envelope.BadField("handoff_key", "is badly escaped", "percent-encode it")
	}
	return key, checkKey(key)
}
