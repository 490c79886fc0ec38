package api

import (
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
)

// guardLoopback keeps web pages out of a listener that knows no
// authentication: a page can make a browser send requests to loopback, but
// only under a foreign Host (DNS rebinding) or with a foreign Origin.
func (s *server) guardLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			envelope.Fail(w, &envelope.Error{
				Status: http.StatusForbidden, Field: "Host", Message: "is not a loopback address",
				Hint: "use http://127.0.0.1 or http://localhost",
			})
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" && !sameOrigin(origin, r.Host) {
			envelope.Fail(w, foreignOrigin())
			return
		}
		next.ServeHTTP(w, r)
	})
}

// guardOrigin keeps web pages out of the listener of pushes, which is called
// under any host name: browsers send Origin with every POST and DELETE,
// wrappers never do.
func guardOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" {
			envelope.Fail(w, foreignOrigin())
			return
		}
		next.ServeHTTP(w, r)
	})
}

func foreignOrigin() *envelope.Error {
	return &envelope.Error{
		Status: http.StatusForbidden, Field: "Origin", Message: "is of another site, which is refused",
		Hint: "leave the header out",
	}
}

func isLoopback(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
		host = host[1 : len(host)-1]
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host == host
}

// demandJSON refuses bodies of the types that a web page may send without
// asking.
func demandJSON(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		typ, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		switch {
		case err == nil && (typ == "application/json" || typ == "application/x-ndjson" || typ == "application/ndjson"):
			next.ServeHTTP(w, r)
		default:
			envelope.Fail(w, &envelope.Error{
				Status: http.StatusUnsupportedMediaType, Field: "Content-Type", Message: "is not JSON",
				Hint: "send application/json or application/x-ndjson",
			})
		}
	})
}
