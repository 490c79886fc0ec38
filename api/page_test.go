package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/api/wire"
)

func TestPage(t *testing.T) {
	t.Parallel()
	const half = maxPageBytes / 2
	for _, c := range []struct {
		sizes []int
		limit int
		want  int
		more  bool
	}{
		{nil, 2, 0, false},
		{[]int{1, 1}, 2, 2, false},
		{[]int{1, 1, 1}, 2, 2, true},
		{[]int{half, half}, 2, 2, false},
		{[]int{half, half + 1}, 2, 1, true},
		{[]int{half, half, 1}, 5, 2, true},
		{[]int{maxPageBytes + 1}, 5, 1, false}, // a row is never skipped
		{[]int{maxPageBytes + 1, 1}, 5, 1, true},
		{[]int{0, maxPageBytes + 1}, 5, 1, true},
	} {
		got, more := page(c.sizes, c.limit, func(size *int) int { return *size })
		if len(got) != c.want || more != c.more {
			t.Errorf("%v by %d: %v, %t", c.sizes, c.limit, got, more)
		}
	}
}

// TestPagesOfLongTexts: a page is bounded in bytes, whatever is asked for, and
// nothing is skipped.
func TestPagesOfLongTexts(t *testing.T) {
	t.Parallel()
	const size, count = 256 << 10, 34 // more than a page
	s := newService(t, func(c *Config) { c.MaxHandoffBytes, c.MaxMessageBytes = size, size })
	s.http = s.server.Client() // to check megabytes against the document takes seconds
	room := s.room()
	sender, reader := s.participant(room, "sender"), s.participant(room, "reader")
	body := strings.Repeat(".", size) // no words, which take time to store
	var keys []string                 // the newest first
	var ids []int64
	for i := range count {
		h := handoffOf(fmt.Sprint("k", i))
		h.Body = body
		s.do("POST", "/handoffs", h).want(201)
		keys = append([]string{h.HandoffKey}, keys...)
		ids = append(ids, s.say(room, sender, body, "").ID)
	}
	short := func(r *reply) *reply {
		t.Helper()
		if len(r.body) > maxPageBytes+(64<<10) {
			t.Errorf("a page of %d bytes", len(r.body))
		}
		return r.want(200)
	}
	t.Run("handoffs", func(t *testing.T) {
		var got []string
		for after := ""; ; {
			p := into[wire.Handoffs](short(s.do("GET", "/handoffs?limit=500"+after, nil)))
			for _, h := range p.Handoffs {
				got = append(got, h.HandoffKey)
			}
			if p.Next == nil {
				break
			}
			after = "&after=" + *p.Next
		}
		if diff := cmp.Diff(keys, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("log", func(t *testing.T) {
		var got []int64
		for after := ""; ; {
			p := into[wire.Log](short(s.do("GET", "/rooms/"+room+"/log?limit=500"+after, nil)))
			got = append(got, idsOf(p.Messages)...)
			if p.Next == nil {
				break
			}
			after = fmt.Sprint("&after=", *p.Next)
		}
		if diff := cmp.Diff(ids, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("tail", func(t *testing.T) {
		var got []int64
		for before := ""; ; {
			p := into[wire.Log](short(s.do("GET", "/rooms/"+room+"/log?tail=500"+before, nil)))
			if len(p.Messages) == 0 {
				break
			}
			got = append(idsOf(p.Messages), got...)
			before = fmt.Sprint("&before=", got[0])
		}
		if diff := cmp.Diff(ids, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("poll", func(t *testing.T) {
		var got []int64
		for more := true; more; {
			p := into[wire.Poll](short(s.do("GET", "/rooms/"+room+"/messages?limit=500&participant="+reader, nil)))
			got, more = append(got, idsOf(p.Messages)...), p.HasMore
		}
		if !slices.Equal(ids, got) {
			t.Errorf("%v, want %v", got, ids)
		}
	})
}
