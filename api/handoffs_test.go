package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// note is a valid handoff.
func handoffOf(key string) wire.HandoffWrite {
	return wire.HandoffWrite{HandoffKey: key, Project: "demo", Repo: "acme/widgets", Kind: "review", Body: "# State\ndone: all"}
}

// TestHandoffRow: POST answers the row, GET the same one, 404 if absent.
func TestHandoffRow(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.do("GET", "/handoffs/k", nil).fails(404, "handoff")
	made := s.do("POST", "/handoffs", handoffOf("k")).want(201)
	h := into[wire.Handoff](made)
	if h.HandoffKey != "k" || h.Project != "demo" || h.Repo != "acme/widgets" || h.Kind != "review" || h.CreatedBy != "local" ||
		h.UpdatedBy != "local" || h.Body != "# State\ndone: all" || h.Revision != 1 || h.ETag != `"1"` || !h.CreatedAt.Equal(h.UpdatedAt) {
		t.Errorf("%+v", h)
	}
	if made.header.Get("ETag") != `"1"` || made.header.Get("Location") != "handoffs/k" {
		t.Errorf("%v", made.header)
	}
	got := s.do("GET", "/handoffs/k", nil).want(200)
	if diff := cmp.Diff(h, into[wire.Handoff](got)); diff != "" || got.header.Get("ETag") != `"1"` {
		t.Error(diff, got.header)
	}
	// The latest wins, and replaces every field.
	again := into[wire.Handoff](s.do("POST", "/handoffs", `{"handoff_key":"k","project":"demo","body":"b","unknown":{"x":[1]}}`).want(200))
	if again.ID != h.ID || again.Repo != "" || again.Kind != "" || again.Body != "b" || again.ETag != `"2"` || !again.UpdatedAt.After(h.UpdatedAt) {
		t.Errorf("%+v", again)
	}
	s.do("DELETE", "/handoffs/k", nil).want(204)
	s.do("DELETE", "/handoffs/k", nil).want(204)
	s.do("GET", "/handoffs/k", nil).want(404)
	s.counts("chat_handoffs_total", `
# HELP chat_handoffs_total Handoffs, by operation: write, read, list, delete, restore.
# TYPE chat_handoffs_total counter
chat_handoffs_total{op="delete"} 1
chat_handoffs_total{op="read"} 1
chat_handoffs_total{op="write"} 2
chat_handoffs_total{op="list"} 0
chat_handoffs_total{op="restore"} 0
`)
}

// TestHandoffKeys: slashes as %2F or decoded by a proxy, unicode, a literal %.
func TestHandoffKeys(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for key, paths := range map[string][]string{
		"a":                      {"a", "%61"},
		"a/b":                    {"a%2Fb", "a/b", "a%2fb"},
		"a%2Fb":                  {"a%252Fb"},
		"50%":                    {"50%25"},
		"50%25":                  {"50%2525"},
		"owner/repo#12":          {"owner%2Frepo%2312", "owner/repo%2312"},
		"ą/ś#1":                  {"%C4%85%2F%C5%9B%231", "ą/ś%231"},
		"a b+c":                  {"a%20b+c", "a%20b%2Bc"},
		"a?b=c&d":                {"a%3Fb%3Dc%26d"},
		"revisions":              {"revisions"},
		"restore":                {"restore"},
		"stats":                  {"stats"},
		"a/revisions/b":          {"a%2Frevisions%2Fb", "a/revisions/b"},
		"a/":                     {"a%2F", "a/"},
		"/a":                     {"%2Fa", "/a"},
		"https://x.test/y":       {"https%3A%2F%2Fx.test%2Fy", "https://x.test/y"},
		"a...b/..c":              {"a...b%2F..c"},
		"{key}":                  {"%7Bkey%7D"},
		strings.Repeat("x", 512): {strings.Repeat("x", 512)},
	} {
		for _, prefix := range []string{"/handoffs/", "/api/v1/chat/handoffs/"} {
			h := into[wire.Handoff](s.do("POST", strings.TrimSuffix(prefix, "/"), handoffOf(key)))
			for _, path := range append(paths, url.PathEscape(key)) {
				got := into[wire.Handoff](s.do("GET", prefix+path, nil).want(200))
				if got.HandoffKey != key || got.Revision != h.Revision {
					t.Errorf("%q by %q: %q", key, path, got.HandoffKey)
				}
				if v := into[wire.Revisions](s.do("GET", prefix+path+"/revisions", nil).want(200)); v.Count == 0 {
					t.Errorf("%q by %q: no revisions", key, path)
				}
				s.do("POST", prefix+path+"/restore", wire.Restore{Revision: 1}).want(200)
				s.do("DELETE", prefix+path, nil).want(204)
				h = into[wire.Handoff](s.do("POST", prefix+path+"/restore", wire.Restore{Revision: 1}).want(200))
			}
		}
	}
}

func TestHandoffKeysRefused(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, key := range []string{
		"", " ", "\t\n", ".", "..", "a/../b", "./a", "a/..", "a\x00b", "a\nb", "a\x7fb", "a\u0085b", strings.Repeat("x", 513), strings.Repeat("ą", 257),
		"a/revisions", "a/restore", "/revisions",
	} {
		if e := s.do("POST", "/handoffs", handoffOf(key)).fails(400, "handoff_key"); e.Hint == "" {
			t.Errorf("%q: no hint", key)
		}
		if key == "" {
			continue
		}
		for _, method := range []string{"GET", "DELETE"} {
			// Escaped more than needed: clients resolve dots.
			s.do(method, "/handoffs/"+strings.ReplaceAll(url.PathEscape(key), ".", "%2E"), nil).fails(400, "handoff_key")
		}
	}
	s.do("GET", "/handoffs/", nil).fails(404, "")
	s.do("GET", "/handoffs/%FF", nil).fails(400, "handoff_key")
	if allow := s.do("DELETE", "/handoffs/a/revisions", nil).want(405).header.Values("Allow"); !slices.Equal(allow, []string{"GET", "HEAD"}) {
		t.Error(allow)
	}
}

// TestHandoffFields: what is required, how long it may be, what it may hold.
func TestHandoffFields(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *Config) { c.MaxHandoffBytes = 1000 })
	long := strings.Repeat("x", 257)
	for body, field := range map[string]string{
		`{"project":"p","body":"b"}`:                                         "handoff_key",
		`{"handoff_key":"k","body":"b"}`:                                     "project",
		`{"handoff_key":"k","project":" ","body":"b"}`:                       "project",
		`{"handoff_key":"k","project":"p"}`:                                  "body",
		`{"handoff_key":"k","project":"p","body":" \n\t"}`:                   "body",
		`{"handoff_key":"k","project":"p","body":null}`:                      "body",
		`{"handoff_key":"k","project":"p","body":"a\u0000b"}`:                "body",
		`{"handoff_key":"k","project":"p\u0000","body":"b"}`:                 "project",
		`{"handoff_key":"k","project":"p","repo":"\u0000","body":"b"}`:       "repo",
		`{"handoff_key":"k","project":"p","kind":"\u0000","body":"b"}`:       "kind",
		`{"handoff_key":"k","project":"` + long + `","body":"b"}`:            "project",
		`{"handoff_key":"k","project":"p","repo":"` + long + `","body":"b"}`: "repo",
		`{"handoff_key":"k","project":"p","kind":"` + long + `","body":"b"}`: "kind",
		`{"handoff_key":1,"project":"p","body":"b"}`:                         "handoff_key",
		`{"handoff_key":"k","project":["p"],"body":"b"}`:                     "project",
		`{"handoff_key":"k","project":"p","body":{"a":1}}`:                   "body",
		`{"handoff_key":"k","project":"p","body":"b","body":"c"}`:            "body",
		`{"handoff_key":"k","project":"p","body":"` + "\xff" + `"}`:          "body",
		`{"handoff_key":"k","project":"p","body":"\ud800"}`:                  "body",
		`{"handoff_key":"k","project":"p","body":"b"}{}`:                     "body",
		`{"handoff_key":"k","project":"p","body":"b"} x`:                     "body",
		`[{"handoff_key":"k","project":"p","body":"b"}]`:                     "body",
		`"x"`: "body", `null`: "body", ``: "body", ` `: "body", `{`: "body", `{"handoff_key":"k"`: "body", `nonsense`: "body",
	} {
		s.do("POST", "/handoffs", body).fails(400, field)
	}
	s.do("POST", "/handoffs", `{"handoff_key":"k","project":"p","body":"`+strings.Repeat("x", 1000)+`"}`).want(201)
	e := s.do("POST", "/handoffs", `{"handoff_key":"k","project":"p","body":"`+strings.Repeat("x", 1001)+`"}`).fails(413, "body")
	if !strings.Contains(e.Message, "1000") {
		t.Errorf("the limit is not named: %+v", e)
	}
	// Escapes make the request six times longer, not the body.
	s.do("POST", "/handoffs", `{"handoff_key":"k","project":"p","body":"`+strings.Repeat(`\u0041`, 1000)+`"}`).want(200)
	s.do("POST", "/handoffs", `{"handoff_key":"k","project":"p","body":"`+strings.Repeat("x", 1<<20)+`"}`).fails(413, "body")
	s.do("POST", "/handoffs", `{}`, "Content-Encoding", "br").fails(415, "Content-Encoding")
	s.do("POST", "/handoffs", `{}`, "Content-Encoding", "identity").fails(400, "handoff_key")
}

// TestEntityTags: the-agency#74, where the later, emptier note won.
func TestEntityTags(t *testing.T) {
	t.Parallel()
	s := newService(t)
	put := func(header ...string) *reply { return s.do("POST", "/handoffs", handoffOf("k"), header...) }
	put("If-Match", `"1"`).fails(412, "")
	put("If-Match", `*`).fails(412, "")
	put("If-None-Match", `*`).want(201)
	put("If-None-Match", `*`).fails(412, "")
	put("If-Match", `"1"`).want(200)
	put("If-Match", `"1"`).fails(412, "")
	put("If-Match", `*`).want(200)
	put("If-Match", ` "9" ,"3",, "x"`).want(200)
	put("If-Match", `"9"`, "If-Match", `"4"`).want(200)
	put("If-Match", `W/"5"`).fails(412, "") // weak tags never match
	put("If-Match", `"05"`).fails(412, "")
	put("If-Match", `"99999999999999999999"`).fails(412, "")
	for _, bad := range []string{``, `5`, `"5`, `5"`, `"5" "6"`, `*,"5"`, `"5",*`, `w/"5"`, `,`, `"a b"`} {
		put("If-Match", bad).fails(400, "If-Match")
	}
	put("If-None-Match", `"5"`).fails(400, "If-None-Match")
	put("If-None-Match", `x`).fails(400, "If-None-Match")
	put("If-None-Match", `*`, "If-Match", `*`).fails(400, "If-None-Match")

	for tag, status := range map[string]int{
		`"5"`: 304, `W/"5"`: 304, `"4", "5"`: 304, `*`: 304, `"4"`: 200, `"x"`: 200, `5`: 400,
	} {
		if r := s.do("GET", "/handoffs/k", nil, "If-None-Match", tag).want(status); status != 400 && r.header.Get("ETag") != `"5"` {
			t.Errorf("%s: %v", tag, r.header)
		}
	}
	s.do("GET", "/handoffs/none", nil, "If-None-Match", "*").want(404)

	del := func(header ...string) *reply { return s.do("DELETE", "/handoffs/k", nil, header...) }
	del("If-Match", `"4"`).fails(412, "")
	del("If-Match", `x`).fails(400, "If-Match")
	del("If-None-Match", `*`).fails(400, "If-None-Match")
	del("If-Match", `"5"`).want(204)
	del("If-Match", `"5"`).fails(412, "")
	del().want(204)
	// Revisions go on: an old tag never fits a new row.
	if h := into[wire.Handoff](put().want(201)); h.ETag != `"6"` {
		t.Errorf("%+v", h)
	}
}

// TestRevisions: the last 20 are kept, also after a delete, and come back with
// one call.
func TestRevisions(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.do("GET", "/handoffs/k/revisions", nil).fails(404, "handoff")
	for i := range 23 {
		in := handoffOf("k")
		in.Body = fmt.Sprint("state ", i+1)
		s.do("POST", "/handoffs", in, "X-Request-Id", "run-7")
	}
	s.do("DELETE", "/handoffs/k", nil).want(204)
	all := into[wire.Revisions](s.do("GET", "/handoffs/k/revisions", nil).want(200))
	if all.Count != 20 || all.Revisions[0].Revision != 23 || all.Revisions[19].Body != "state 4" || all.Revisions[0].RequestID != "run-7" || all.Revisions[0].WrittenBy != "local" {
		t.Errorf("%+v", all)
	}
	restore := func(body any, header ...string) *reply { return s.do("POST", "/handoffs/k/restore", body, header...) }
	restore(wire.Restore{Revision: 3}).fails(404, "revision")
	restore(wire.Restore{Revision: 99}).fails(404, "revision")
	restore(`{}`).fails(400, "revision")
	restore(`{"revision":0}`).fails(400, "revision")
	restore(`{"revision":"5"}`).fails(400, "revision")
	restore(`{"revision":5.5}`).fails(400, "revision")
	restore(`{"revision":99999999999999999999}`).fails(400, "revision")
	restore(wire.Restore{Revision: 5}, "If-Match", "*").fails(412, "")
	h := into[wire.Handoff](restore(wire.Restore{Revision: 5}, "If-None-Match", "*").want(200))
	if h.Body != "state 5" || h.Revision != 24 {
		t.Errorf("%+v", h)
	}
	restore(wire.Restore{Revision: 6}, "If-Match", `"23"`).fails(412, "")
	h = into[wire.Handoff](restore(wire.Restore{Revision: 6}, "If-Match", `"24"`).want(200))
	all = into[wire.Revisions](s.do("GET", "/handoffs/k/revisions", nil).want(200))
	if h.Body != "state 6" || all.Revisions[0].Restored != 6 {
		t.Errorf("%+v, %+v", h, all.Revisions[0])
	}
	s.do("POST", "/handoffs/none/restore", wire.Restore{Revision: 1}).fails(404, "revision")
}

// TestOtherProject: an upsert that would move a key to another project.
func TestOtherProject(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.do("POST", "/handoffs", handoffOf("k")).want(201)
	in := handoffOf("k")
	in.Project = "other"
	s.do("POST", "/handoffs", in).fails(409, "project")
}

func TestListHandoffs(t *testing.T) {
	t.Parallel()
	s := newService(t)
	if r := s.do("GET", "/handoffs", nil).want(200); string(r.body) != `{"handoffs":[],"count":0,"next":null}`+"\n" {
		t.Errorf("%s", r.body)
	}
	var want []string
	for i := range 7 {
		in := handoffOf(fmt.Sprint("k", i))
		in.Project = fmt.Sprint("p", i%2)
		in.Kind = fmt.Sprint("kind", i%3)
		in.Body = fmt.Sprint("about the parser, part", i, " of seven")
		s.do("POST", "/handoffs", in).want(201)
		want = append([]string{in.HandoffKey}, want...)
	}
	keys := func(query string) (out []string) {
		t.Helper()
		for _, h := range into[wire.Handoffs](s.do("GET", "/handoffs?"+query, nil).want(200)).Handoffs {
			out = append(out, h.HandoffKey)
		}
		return out
	}
	for query, want := range map[string][]string{
		"":                                       want,
		"project=&repo=":                         want,
		"project=p1":                             {"k5", "k3", "k1"},
		"project=p1&repo=none":                   nil,
		"kind=kind2":                             {"k5", "k2"},
		"q=part3":                                {"k3"},
		"q=" + url.QueryEscape(`"seven parser"`): nil,
		"q=" + strings.Repeat("%C4%85", 256):     nil,
		// Nothing that can be searched is found nowhere.
		"q=the": nil, "q=%20": nil, "q=%21%22": nil, "q=-": nil,
		"updated_before=2020-01-01": nil,
		"updated_before=" + time.Now().Add(time.Hour).UTC().Format(time.RFC3339): want,
		"limit=2":   {"k6", "k5"},
		"limit=501": want, // more than a page holds

		"limit=&after=&q=&updated_before=&kind=": want,
	} {
		if diff := cmp.Diff(want, keys(query)); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
	var got []string
	for after := ""; ; {
		p := into[wire.Handoffs](s.do("GET", "/handoffs?limit=3"+after, nil).want(200))
		for _, h := range p.Handoffs {
			got = append(got, h.HandoffKey)
		}
		if p.Next == nil {
			break
		}
		after = "&after=" + *p.Next
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for query, field := range map[string]string{
		"limit=0": "limit", "limit=x": "limit", "limit=-1": "limit", "limit=1&limit=2": "limit",
		"after=x": "after", "after=" + cursor(time.UnixMicro(-1), uuid.Nil): "after", "after=AAAA": "after",
		"updated_before=yesterday": "updated_before", "updated_before=0001-01-01T00:00:00Z": "updated_before",
		"colour=red": "colour", "project=%FF": "project", "project=%00": "project", "q=" + strings.Repeat("x", 257): "q", "project=%zz": "query",
		"q=" + strings.Repeat("%C4%85", 257): "q",
	} {
		s.do("GET", "/handoffs?"+query, nil).fails(400, field)
	}
}

// TestIdempotencyKey: a create with a key is done once, for every create there
// is, under both prefixes.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.do("POST", "/handoffs", handoffOf("k")).want(201)
	room := into[wire.Room](s.do("POST", "/rooms", wire.NewRoom{Name: "r"}).want(201))
	p := into[wire.Participant](s.do("POST", "/rooms/"+room.ID+"/participants", wire.NewParticipant{Name: "a"}).want(201))
	for path, bodies := range map[string][2]string{
		"/handoffs":                           {`{"handoff_key":"k2","project":"p","body":"b"}`, `{"handoff_key":"k2","project":"p","body":"c"}`},
		"/handoffs/k/restore":                 {`{"revision":1}`, `{"revision":1 }`},
		"/rooms":                              {`{"name":"a"}`, `{"name":"b"}`},
		"/rooms/" + room.ID + "/participants": {`{"name":"b"}`, `{"name":"c"}`},
		"/rooms/" + room.ID + "/messages":     {`{"participant_id":"` + p.ID + `","body":"a"}`, `{"participant_id":"` + p.ID + `","body":"b"}`},
	} {
		first := s.do("POST", path, bodies[0], "Idempotency-Key", "one")
		second := s.do("POST", "/api/v1/chat"+path, bodies[0], "Idempotency-Key", "one")
		if first.status >= 300 || first.status != second.status || string(first.body) != string(second.body) {
			t.Errorf("%s: %d %s, then %d %s", path, first.status, first.body, second.status, second.body)
		}
		if first.header.Get("Idempotent-Replayed") != "" || second.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: replays are not told apart", path)
		}
		s.do("POST", path, bodies[1], "Idempotency-Key", "one").fails(422, "Idempotency-Key")
		if other := s.do("POST", path, bodies[0], "Idempotency-Key", "two"); other.status >= 300 {
			t.Errorf("%s: %d", path, other.status)
		}
		for _, bad := range []string{"", strings.Repeat("x", 256), "é"} {
			s.do("POST", path, bodies[0], "Idempotency-Key", bad).fails(400, "Idempotency-Key")
		}
		s.do("POST", path, bodies[0], "Idempotency-Key", "x", "Idempotency-Key", "y").fails(400, "Idempotency-Key")
	}
	s.do("POST", "/handoffs", handoffOf("k"), "Idempotency-Key", "cond", "If-Match", "*").want(200)
	s.do("POST", "/handoffs", handoffOf("k"), "Idempotency-Key", "cond", "If-Match", `"1"`).fails(422, "Idempotency-Key")
	s.counts("chat_messages_total", `
# HELP chat_messages_total Messages, by kind (message, system, other) and scope (global, dm).
# TYPE chat_messages_total counter
chat_messages_total{kind="message",scope="global"} 2
chat_messages_total{kind="message",scope="dm"} 0
chat_messages_total{kind="system",scope="global"} 0
chat_messages_total{kind="other",scope="global"} 0
chat_messages_total{kind="other",scope="dm"} 0
`)
}

// TestBothPrefixes: what the ingress strips is served all the same.
func TestBothPrefixes(t *testing.T) {
	t.Parallel()
	s := newService(t)
	room := into[wire.Room](s.do("POST", "/api/v1/chat/rooms", wire.NewRoom{Name: "r"}).want(201))
	s.do("GET", "/rooms/"+room.ID, nil).want(200)
	s.do("GET", "/api/v1/chat/rooms/"+room.ID, nil).want(200)
	s.do("GET", "/api/v1/chat/nothing", nil).fails(404, "")
	if allow := s.do("PUT", "/api/v1/chat/rooms", nil).want(405).header.Values("Allow"); !slices.Equal(allow, []string{"GET", "HEAD", "POST"}) {
		t.Error(allow)
	}
	if allow := s.do("PUT", "/handoffs/a/b", nil).want(405).header.Values("Allow"); !slices.Equal(allow, []string{"GET", "HEAD", "DELETE"}) {
		t.Error(allow)
	}
	s.do("HEAD", "/api/v1/chat/rooms/"+room.ID, nil).want(200)
	s.do("POST", "/rooms", `{"name":"r"}`, "Content-Type", "").fails(http.StatusUnsupportedMediaType, "Content-Type")
}
