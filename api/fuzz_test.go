package api

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
)

// FuzzRoutes: whatever comes, the answer is one that the document describes,
// and no fault of the service.
func FuzzRoutes(f *testing.F) {
	s := newService(f, func(c *Config) { c.MaxWait, c.MaxHandoffBytes, c.MaxMessageBytes = time.Millisecond, 1<<10, 1<<10 })
	room := s.room()
	p := s.participant(room, "p")
	for _, r := range seedRequests(room, p) {
		f.Add(r[0], r[1], r[2], r[3], r[4])
	}
	doc := openAPIDocument(f)
	f.Fuzz(func(t *testing.T, method, target, header, value, body string) {
		r := requestOf(method, target, header, value, body)
		if r == nil {
			t.Skip("no client can send it")
		}
		w := httptest.NewRecorder()
		s.server.Config.Handler.ServeHTTP(w, r)
		if w.Code >= http.StatusInternalServerError {
			t.Errorf("%s %q, %s: %q, %q: %d %s\n%s", method, target, header, value, body, w.Code, w.Body, s.log)
		}
		// Where the document says so, posted facts are each named instead.
		named := w.Code == http.StatusBadRequest && strings.HasPrefix(w.Body.String(), `{"accepted":0,`)
		if w.Code >= http.StatusBadRequest && method != http.MethodHead && !named {
			checkText(t, w.Code, failure(t, w))
		}
		doc.Check(t, r, w.Result(), w.Body.Bytes())
	})
}

// requestOf is the request as a server would see it; nil if none could: such as
// of a path that is badly escaped, which net/http refuses, see [Listener].
func requestOf(method, target, header, value, body string) *http.Request {
	u, err := url.ParseRequestURI(target)
	if err != nil || !strings.HasPrefix(target, "/") || strings.ContainsAny(target+header+value, "\r\n\x00") || strings.ContainsAny(target, " #") {
		return nil
	}
	if method == "" || strings.ContainsFunc(method, func(c rune) bool { return c < 'A' || c > 'Z' }) {
		return nil
	}
	r := httptest.NewRequest(method, "http://127.0.0.1/", strings.NewReader(body))
	u.Scheme, u.Host = "", ""
	r.URL, r.RequestURI = u, target
	r.Header.Set("Content-Type", "application/json")
	if header != "" {
		r.Header.Set(header, strings.TrimSpace(value))
	}
	return r
}

// seedRequests are every route with malformed ids, bodies, sizes, parameters
// and headers.
func seedRequests(room, participant string) (out [][5]string) {
	add := func(method, target, header, value, body string) {
		out = append(out, [5]string{method, target, header, value, body})
	}
	ids := []string{"x", "%00", "%FF", "..", "%2e%2e", "a%2Fb", strings.Repeat("x", 600), "%2500", uuid.NewString(), "0", "'%3B--", "%E2%80%AE"}
	bodies := []string{
		``, `{`, `null`, `[]`, `""`, `{}`, `{"name":1}`, `{"name":"\u0000"}`, `{"name":"` + "\xff" + `"}`, `{"revision":1e99}`, `{"last_seen_id":-1}`,
		`{"name":"` + strings.Repeat("x", 70<<10) + `"}`, `{"handoff_key":"\ud800"}`, strings.Repeat("[", 20000), `{"a":` + strings.Repeat(`{"a":`, 20000),
		`{"participant_id":"` + participant + `","body":"` + strings.Repeat("x", 2000) + `"}`, `{"handoff_key":"k","project":"p","body":"` + strings.Repeat("y", 2000) + `"}`,
	}
	for _, id := range ids {
		for _, sub := range []string{"", "/", "/ceiling", "/end", "/ceiling/end"} {
			for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
				add(method, "/v1/tasks/"+id+sub, "", "", `{}`)
			}
		}
	}
	for _, body := range append(bodies, `{"usd":1e400}`, `{"usd":"1e99999999"}`, `{"tokens":-1}`, `{"exempt":1}`, `{"usd":{}}`) {
		add("PUT", "/v1/tasks/t/ceiling", "", "", body)
		add("POST", "/v1/tasks/t/end", "", "", body)
	}
	for _, body := range append(bodies, `{"ts":"2026-11-30T11:00:00Z","task":"t","outcome":"o","text":"x"}`, `{"ts":"2026-11-30T11:00:00Z","text":"x","tags":[{}]}`,
		`{"ts":1}`, `{"ts":"2026-11-30T11:00:00Z","task":"t","outcome":"o"}`, `[{"ts":"2026-11-30T11:00:00Z","text":"x","tags":["a"]},1]`, `{"tags":[`, "{}\n{}") {
		for _, path := range []string{"/v1/outcomes", "/v1/annotations", "/v1/calls"} {
			add("POST", path, "", "", body)
			add("POST", path, "Content-Type", "application/x-ndjson", body)
		}
	}
	for _, query := range []string{"state=x", "sort=x", "limit=-1", "after=AAAA", "after=Y29zdAA", "project=%00", "kind=%FF", "task=t"} {
		add("GET", "/v1/tasks?"+query, "", "", "")
	}
	for prefix, methods := range map[string][]string{"": {"GET", "HEAD", "POST", "DELETE", "BREW"}, chatPrefix: {"GET", "PUT"}} {
		for _, method := range methods {
			for _, id := range append([]string{room}, ids...) {
				for _, sub := range []string{"", "/", "/participants", "/messages", "/log", "/participants/" + id, "/participants/" + id + "/ack", "/messages?participant=" + id} {
					add(method, prefix+"/rooms/"+id+sub, "", "", `{}`)
				}
				for _, sub := range []string{"", "/", "/revisions", "/restore"} {
					add(method, prefix+"/handoffs/"+id+sub, "", "", `{}`)
				}
			}
		}
		if prefix != "" { // behind it are the same handlers
			continue
		}
		for _, path := range []string{"/handoffs", "/handoffs/k/restore", "/rooms", "/rooms/" + room + "/participants", "/rooms/" + room + "/messages", "/rooms/" + room + "/participants/" + participant + "/ack"} {
			for _, body := range bodies {
				add("POST", prefix+path, "", "", body)
			}
			for _, header := range []string{"If-Match", "If-None-Match", "Idempotency-Key", "Content-Type", "Content-Encoding", "Origin", "Expect", envelope.RequestIDHeader} {
				for _, value := range []string{"", "*", `"1"`, `W/"1"`, "\xff", strings.Repeat("x", 300), "gzip"} {
					add("POST", prefix+path, header, value, `{"name":"n"}`)
				}
			}
		}
		for _, path := range []string{"/handoffs", "/rooms", "/rooms/" + room + "/log", "/rooms/" + room + "/messages?participant=" + participant} {
			join := "?"
			if strings.Contains(path, "?") {
				join = "&"
			}
			for _, query := range []string{
				"limit=x", "limit=99999999999999999999", "after=%00", "after=AAAA", "after=9223372036854775807", "after=" + cursor(time.UnixMicro(1<<62), uuid.Nil),
				"q=%FF", "q=%22", "q=-", "q=" + strings.Repeat("x", 1024), "q=%26%7C!()%3A*", "project=%00", "project=", "updated_before=9999-12-31", "updated_before=10000-01-01",
				"tail=2", "tail=2&before=1", "tail=2&limit=1", "tail=9223372036854775808", "before=1", "wait=-1", "wait=1ns", "advance=2", "status=%00", "%zz", "a;b", "x=1",
			} {
				add("GET", prefix+path+join+query, "", "", "")
			}
		}
	}
	return out
}
