package receive

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/journal"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

func zipped(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestBodies(t *testing.T) {
	t.Parallel()
	small := func(c *Config) { c.CallBytes = 1000 }
	fill := func(n int) string { return oneCall("") + strings.Repeat(" ", n-len(oneCall(""))) }
	for _, c := range []struct {
		name, body, encoding string
		status               int
		reason, field        string
	}{
		{"at the limit", fill(1000), "", 200, "", ""},
		{"over the limit", fill(1001), "", 413, "too_large", ""},
		{"gzip", zipped(t, oneCall("")), "gzip", 200, "", ""},
		{"gzip in capitals", zipped(t, oneCall("")), "GZIP", 200, "", ""},
		{"gzip at the limit", zipped(t, fill(1000)), "gzip", 200, "", ""},
		{"gzip over the limit", zipped(t, fill(1001)), "gzip", 413, "too_large", ""},
		{"a gzip bomb of 16 MB", zipped(t, strings.Repeat(" ", 16<<20))[:900], "gzip", 413, "too_large", ""},
		{"gzip that is none", oneCall(""), "gzip", 400, "encoding", "Content-Encoding"},
		{"gzip cut off", zipped(t, oneCall(""))[:40], "gzip", 400, "truncated", ""},
		{"gzip with a wrong checksum", zipped(t, oneCall(""))[:len(zipped(t, oneCall("")))-8] + "12345678", "gzip", 400, "truncated", ""},
		{"identity", oneCall(""), "identity", 200, "", ""},
		{"brotli", oneCall(""), "br", 415, "encoding", "Content-Encoding"},
		{"gzip twice", zipped(t, zipped(t, oneCall(""))), "gzip, gzip", 415, "encoding", "Content-Encoding"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, small)
			w := h.send(http.MethodPost, "/v1/calls", c.body, "Content-Encoding", c.encoding)
			if c.status == http.StatusOK {
				if w.Code != c.status {
					t.Errorf("%d %s", w.Code, w.Body)
				}
				return
			}
			h.refusedWith(t, w, c.status, "call", c.reason, c.field)
		})
	}
}

func TestBodyEndsEarlyOrHasNoLength(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *Config) { c.CallBytes = 1000 })
	post := func(body io.Reader) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodPost, "/v1/calls", body)
		req.ContentLength = -1
		h.routes.ServeHTTP(w, req)
		return w
	}
	h.refusedWith(t, post(io.MultiReader(strings.NewReader(oneCall("")), iotest.ErrReader(io.ErrUnexpectedEOF))), 400, "call", "truncated", "")
	h.refusedWith(t, post(strings.NewReader(strings.Repeat("x", 1<<20))), 413, "call", "too_large", "")
}

func TestJournalErrors(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]struct {
		status int
		reason string
	}{
		journal.ErrFull:      {503, "busy"},
		journal.ErrClosed:    {503, "busy"},
		journal.ErrDisk:      {503, "busy"},
		journal.ErrTooLarge:  {413, "too_large"},
		context.Canceled:     {500, "canceled"},
		errors.New("secret"): {500, "internal"},
	} {
		for feed, send := range map[string]func(*harness) *httptest.ResponseRecorder{
			"call": func(h *harness) *httptest.ResponseRecorder { return h.send(http.MethodPost, "/v1/calls", oneCall("")) },
			"push": func(h *harness) *httptest.ResponseRecorder { return h.send(http.MethodPost, pushURL, "") },
			"link": func(h *harness) *httptest.ResponseRecorder { return h.send(http.MethodPut, "/v1/runs/r", "{}") },
		} {
			h := newHarness(t, nil)
			h.memory.err = err
			w := send(h)
			h.refusedWith(t, w, want.status, feed, want.reason, "")
			if retry := w.Header().Get("Retry-After"); (want.status == 503) != (retry == "5") {
				t.Errorf("%v: Retry-After %q", err, retry)
			}
			if strings.Contains(w.Body.String(), "secret") || h.counter(t, "facts_total", feed) != 0 {
				t.Errorf("%v: %s", err, w.Body)
			}
		}
	}
}

// TestAdmission: bodies that do not fit beside those in flight wait, then get
// a 503; when there is room again they are taken.
func TestAdmission(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, func(c *Config) {
			c.CallBytes, c.PushBytes, c.InFlightBytes, c.AdmissionWait = 100, 100, 4*linkBytes/3+4, time.Second
		})
		// A post that is not yet decoded needs all of what is left.
		size := h.cfg.InFlightBytes - h.cfg.pushRoom()
		if !h.room.TryAcquire(size - mostForPosted(100)) {
			t.Fatal("no room")
		}
		h.memory.hold = make(chan struct{})
		first := make(chan int)
		body := oneCall("") + strings.Repeat(" ", 100-len(oneCall("")))
		go func() { first <- h.send(http.MethodPost, "/v1/calls", body).Code }()
		synctest.Wait()
		start := time.Now()
		w := h.send(http.MethodPost, "/v1/calls", body)
		if waited := time.Since(start); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "5" || waited != time.Second {
			t.Errorf("%d after %s: %s", w.Code, waited, w.Body)
		}
		if h.counter(t, "rejected_total", "call", "busy") != 1 {
			t.Error("it was not counted")
		}
		pushed := make(chan int)
		go func() { pushed <- h.send(http.MethodPost, pushURL, "up 1\n").Code }()
		synctest.Wait()
		second := make(chan int)
		go func() { second <- h.send(http.MethodPost, "/v1/calls", body).Code }()
		synctest.Wait()
		close(h.memory.hold)
		if a, b := <-first, <-second; a != http.StatusOK || b != http.StatusOK {
			t.Errorf("%d, %d", a, b)
		}
		if code := <-pushed; code != http.StatusNoContent {
			t.Errorf("a push beside a room full of calls: %d", code)
		}
		if !h.room.TryAcquire(mostForPosted(100)) || !h.pushRoom.TryAcquire(h.cfg.pushRoom()) {
			t.Error("the room was not given back")
		}
	})
}

// TestMemoryOfCalls: many posts of the calls that grow most when they are
// decoded hold no more than InFlightBytes, and what does not fit gets a 503.
//
//nolint:paralleltest // it measures the heap, which no other test may fill meanwhile
func TestMemoryOfCalls(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.InFlightBytes = 96 << 20 })
	h.memory.hold = make(chan struct{})
	var body strings.Builder
	for i := range maxPosted {
		// Ten labels that no other call has.
		fmt.Fprintf(&body, `{"ts":"2026-11-30T11:00:00Z"`)
		for _, field := range []string{"project", "repo", "kind", "task", "issue", "run", "session", "model", "effort", "agent"} {
			fmt.Fprintf(&body, `,"%s":"%c%d"`, field, field[0], i)
		}
		body.WriteString("}\n")
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	codes := make(chan int, 20)
	for range 20 {
		go func() { codes <- h.send(http.MethodPost, "/v1/calls", body.String()).Code }()
	}
	room := h.cfg.InFlightBytes - h.cfg.pushRoom()
	fit := int(room / roomForPosted(int64(body.Len()), maxPosted))
	for range 20 - fit {
		if code := <-codes; code != http.StatusServiceUnavailable {
			t.Errorf("%d, want a 503", code)
		}
	}
	eventually(t, "decoded posts", func() bool { return int(h.memory.held.Load()) == fit })
	if held := heap() - before; held > room {
		t.Errorf("%d posts hold %d bytes, more than %d", fit, held, room)
	} else {
		t.Logf("%d posts hold %d bytes", fit, held)
	}
	close(h.memory.hold)
	for range fit {
		if code := <-codes; code != http.StatusOK {
			t.Error(code)
		}
	}
}

func TestLink(t *testing.T) {
	t.Parallel()
	for target, run := range map[string]string{
		"/v1/runs/plain":      "plain",
		"/v1/runs/a%2Fb":      "a/b",
		"/v1/runs/a%20b":      "a b",
		"/v1/runs/100%25":     "100%",
		"/v1/runs/a%2541":     "a%41",
		"/v1/runs/a%2Fb%2541": "a/b%41",
	} {
		h := newHarness(t, nil)
		w := h.send(http.MethodPut, target, `{"pod":"p","task":"t","session":"s","issue":"i","handoff_key":"a/b.jsonl","kind":"k","repo":"r","project":"j","effort":"e"}`)
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
			continue
		}
		want := []usage.Link{{
			Run: run, Pod: "p", Task: "t", Session: "s", Issue: "i", HandoffKey: "a/b.jsonl", Kind: "k", Repo: "r", Project: "j", Effort: "e", Arrived: noon,
		}}
		if diff := cmp.Diff(want, h.memory.facts.Links); diff != "" {
			t.Errorf("%s (-want +got):\n%s", target, diff)
		}
	}
	for _, c := range []struct{ body, reason, field string }{
		{``, "unparsable", "body"},
		{`{`, "unparsable", "body"},
		{`[]`, "wrong_type", "body"},
		{`null`, "wrong_type", "body"},
		{`{"task"}`, "unparsable", "task"},
		{`{"task":"a","task":"b"}`, "unparsable", "task"},
		{`{"task":"` + "\xff" + `"}`, "unparsable", "task"},
		{`{"task":"\ud800"}`, "unparsable", "task"},
		{`{"task":"\u0000"}`, "nul_character", "task"},
		{`{"TASK":"t"}`, "unknown_field", "TASK"},
		{`{"task":{}}`, "wrong_type", "task"},
		{`{} {}`, "unparsable", "body"},
		{`{"task":1}`, "wrong_type", "task"},
		{`{"colour":"red"}`, "unknown_field", "colour"},
		{`{"run":"other"}`, "bad_value", "run"},
		{`{"task":"` + strings.Repeat("x", 1025) + `"}`, "label_too_long", "task"},
		{`{"` + strings.Repeat("x", 10000) + `":1}`, "unknown_field", excerpt(strings.Repeat("x", 10000))},
	} {
		h := newHarness(t, nil)
		h.refusedWith(t, h.send(http.MethodPut, "/v1/runs/r", c.body), 400, "link", c.reason, c.field)
	}
	h := newHarness(t, nil)
	h.refusedWith(t, h.send(http.MethodPut, "/v1/runs/r", strings.Repeat(" ", linkBytes+1)), 413, "link", "too_large", "")
}
