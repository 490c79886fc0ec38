package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// standard is v as encoding/json writes it.
func standard(t testing.TB, v any) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{
		"", "plain", "twelve bytes", "seven b\"", "\"quoted\" and \\ and more", "a\tb\nc\rd\be\ff\x00g\x1fh\x7fi",
		"<html> & \u2028 \u2029 żółć 日本語 \U0001f600", "not \xff UTF-8 \xc3", "\xe2\x80",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := string(appendString(nil, s)), standard(t, s); got != want {
			t.Errorf("%q became %s, want %s", s, got, want)
		}
	})
}

func TestAppendJSON(t *testing.T) {
	// No two fields are alike, so that none can be another.
	at := time.Date(2026, 11, 30, 12, 0, 0, 123456000, time.UTC)
	id, next, seen := "author", "next", int64(7)
	handoff := Handoff{
		ID: "id", HandoffKey: "key", Project: "project", Repo: "repo", Kind: "kind", CreatedBy: "a", UpdatedBy: "b",
		Body: "some \"body\"\n", Revision: 3, ETag: `"3"`, CreatedAt: at, UpdatedAt: at.Add(time.Second),
	}
	message := Message{ID: 5, RoomID: "room", AuthorID: &id, AuthorName: "ann", TargetID: &next, Kind: "message", Body: "é", CreatedAt: at}
	for _, v := range []interface{ AppendJSON(b []byte) []byte }{
		&handoff, &Handoff{}, &message, &Message{},
		&Handoffs{}, &Handoffs{Handoffs: []Handoff{}}, &Handoffs{Handoffs: []Handoff{handoff, {}}, Count: 2, Next: &next},
		&Poll{}, &Poll{Messages: []Message{message, {}}, Count: 2, RoomStatus: "active", HasMore: true},
		&Log{}, &Log{Messages: []Message{message, {}}, Count: 2, Next: &seen},
	} {
		if got, want := string(v.AppendJSON(nil)), standard(t, v); got != want {
			t.Errorf("%T became\n%s, want\n%s", v, got, want)
		}
	}
}

func BenchmarkAppendHandoffs(b *testing.B) {
	h := &Handoffs{Count: 50}
	body := strings.Repeat("the cursor moves \"only\" forward and is checked in the same statement\n", 29)
	for range h.Count {
		h.Handoffs = append(h.Handoffs, Handoff{HandoffKey: "acme/repo#12", Project: "demo", Body: body})
	}
	out := h.AppendJSON(nil)
	b.SetBytes(int64(len(out)))
	b.ReportAllocs()
	for b.Loop() {
		out = h.AppendJSON(out[:0])
	}
}
