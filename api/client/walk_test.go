package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// TestAllHandoffs: what is written while the pages are read moves to the
// front, and is found all the same, once.
func TestAllHandoffs(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var rows []wire.Handoff // newest first
	for i := range 10 {
		rows = append(rows, wire.Handoff{ID: fmt.Sprint(i), UpdatedAt: now.Add(-time.Duration(i) * time.Hour)})
	}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		const size = 3
		after := r.URL.Query().Get("after")
		at := 0
		if after != "" {
			until, err := time.Parse(time.RFC3339, after)
			if err != nil {
				t.Error(err)
			}
			at = slices.IndexFunc(rows, func(h wire.Handoff) bool { return h.UpdatedAt.Before(until) })
			if at < 0 {
				at = len(rows)
			}
		}
		page := wire.Handoffs{Handoffs: rows[at:min(at+size, len(rows))]}
		if at+size < len(rows) {
			next := rows[at+size-1].UpdatedAt.Format(time.RFC3339)
			page.Next = &next
		}
		_ = json.NewEncoder(w).Encode(page)
		if after == "" && rows[0].ID == "0" { // after the first page, 8 and 5 are written and 9 is deleted
			rows = slices.DeleteFunc(rows, func(h wire.Handoff) bool { return h.ID == "5" || h.ID == "8" || h.ID == "9" })
			rows = append([]wire.Handoff{
				{ID: "8", UpdatedAt: now.Add(2 * time.Second)},
				{ID: "5", UpdatedAt: now.Add(time.Second)},
			}, rows...)
		}
	})
	c := s.client(t, client.Config{})
	collect := func(q client.HandoffQuery) (ids []string) {
		t.Helper()
		for h, err := range c.AllHandoffs(t.Context(), q) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, h.ID)
		}
		return ids
	}
	if diff := cmp.Diff([]string{"0", "1", "2", "3", "4", "6", "7", "8", "5"}, collect(client.HandoffQuery{})); diff != "" {
		t.Error(diff)
	}
	// From the middle on there is no front to look at again.
	if diff := cmp.Diff([]string{"6", "7"}, collect(client.HandoffQuery{After: now.Add(-5 * time.Hour).Format(time.RFC3339)})); diff != "" {
		t.Error(diff)
	}
	for _, err := range c.AllHandoffs(t.Context(), client.HandoffQuery{}) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	s.CloseClientConnections()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range c.AllHandoffs(ctx, client.HandoffQuery{}) {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// TestAllHandoffsLong: a page that is too long is asked for in parts.
func TestAllHandoffsLong(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		at, _ := strconv.Atoi(q.Get("after"))
		limit, err := strconv.Atoi(q.Get("limit"))
		if err != nil {
			t.Error(err)
		}
		var page wire.Handoffs
		for i := at; i < min(at+limit, 10); i++ {
			page.Handoffs = append(page.Handoffs, wire.Handoff{ID: fmt.Sprint(i), Body: strings.Repeat("x", 1000)})
		}
		if at+limit < 10 {
			next := strconv.Itoa(at + limit)
			page.Next = &next
		}
		_ = json.NewEncoder(w).Encode(page)
	})
	ids := 0
	for _, err := range s.client(t, client.Config{MaxAnswerBytes: 4000}).AllHandoffs(t.Context(), client.HandoffQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids++
	}
	if ids != 10 {
		t.Errorf("%d handoffs", ids)
	}
	for _, err := range s.client(t, client.Config{MaxAnswerBytes: 400}).AllHandoffs(t.Context(), client.HandoffQuery{}) {
		if err == nil || !strings.Contains(err.Error(), "over the limit") {
			t.Error(err)
		}
	}
}

// logOf answers as the log of a room does, with messages of a kilobyte whose ids
// count from 1.
func logOf(t *testing.T, messages int64) *service {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		number := func(name string, absent int64) int64 {
			if !q.Has(name) {
				return absent
			}
			n, err := strconv.ParseInt(q.Get(name), 10, 64)
			if err != nil || n < 1 {
				t.Errorf("%s: %v", r.URL, err)
			}
			return n
		}
		first := number("after", 0) + 1
		end := min(first+number("limit", 50), messages+1)
		if q.Has("tail") {
			end = number("before", messages+1)
			first = max(1, end-number("tail", 0))
		}
		page := wire.Log{Messages: []wire.Message{}}
		for id := first; id < end; id++ {
			page.Messages = append(page.Messages, wire.Message{ID: id, Body: strings.Repeat("x", 1000)})
		}
		if last := end - 1; !q.Has("tail") && last < messages {
			page.Next = &last
		}
		_ = json.NewEncoder(w).Encode(page)
	})
}

// TestAllLogLong: as of handoffs.
func TestAllLogLong(t *testing.T) {
	t.Parallel()
	s := logOf(t, 10)
	for after, want := range map[int64]int64{0: 10, 7: 3, 10: 0} {
		n := int64(0)
		for m, err := range s.client(t, client.Config{MaxAnswerBytes: 4000}).AllLog(t.Context(), "r", after) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; m.ID != after+n {
				t.Errorf("%d comes as message %d after %d", m.ID, n, after)
			}
		}
		if n != want {
			t.Errorf("%d messages after %d", n, after)
		}
	}
	for _, err := range s.client(t, client.Config{MaxAnswerBytes: 400}).AllLog(t.Context(), "r", 0) {
		if err == nil || !strings.Contains(err.Error(), "over the limit") {
			t.Error(err)
		}
	}
}

// TestLogTail: the last messages in order, in as many pages as they need, and
// nothing before them.
func TestLogTail(t *testing.T) {
	t.Parallel()
	for n, want := range map[int][]int64{
		-1: nil, 0: nil, 1: {10}, 3: {8, 9, 10}, 7: {4, 5, 6, 7, 8, 9, 10}, 10: {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 1000: {1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
	} {
		s := logOf(t, 10)
		tail, err := s.client(t, client.Config{MaxAnswerBytes: 4000}).LogTail(t.Context(), "r", n)
		var ids []int64
		for _, m := range tail {
			ids = append(ids, m.ID)
		}
		if diff := cmp.Diff(want, ids); diff != "" || err != nil {
			t.Errorf("%d: %v %s", n, err, diff)
		}
		if n == 1 && len(s.requests()) != 1 {
			t.Errorf("%+v", s.requests())
		}
	}
	if tail, err := logOf(t, 0).client(t, client.Config{}).LogTail(t.Context(), "r", 5); err != nil || len(tail) != 0 {
		t.Errorf("%v, %v", tail, err)
	}
	if _, err := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }).client(t, client.Config{}).LogTail(t.Context(), "r", 5); !errors.Is(err, client.ErrNotFound) {
		t.Error(err)
	}
}

func TestAllRooms(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("after") == "" {
			say(w, `{"rooms":[{"id":"a"},{"id":"b"}],"next":"n"}`)
			return
		}
		say(w, `{"rooms":[{"id":"c"}],"next":null}`)
	})
	var ids []string
	for r, err := range s.client(t, client.Config{}).AllRooms(t.Context(), client.RoomQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, ids); diff != "" {
		t.Error(diff)
	}
}

// TestFollow: messages come in order and once, through an outage, until the
// room is archived.
func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		script := func(r *http.Request) (*http.Response, error) {
			age := time.Since(start)
			if age > 10*time.Second && age < 20*time.Second {
				return answer(503, ""), nil
			}
			if r.URL.Path == "/rooms/r" {
				status := "active"
				if age > time.Minute {
					status = "archived"
				}
				return answer(200, `{"room":{"status":"`+status+`"}}`), nil
			}
			// A message every three seconds, three on a page, for a minute.
			after, _ := strconv.Atoi(r.URL.Query().Get("after"))
			page := wire.Log{}
			for id := int64(after) + 1; id <= min(20, int64(age/(3*time.Second))); id++ {
				if len(page.Messages) == 3 {
					page.Next = &page.Messages[2].ID
					break
				}
				page.Messages = append(page.Messages, wire.Message{ID: id})
			}
			text, err := json.Marshal(page)
			return answer(200, string(text)), err
		}
		c := newClient(t, client.Config{HTTP: &http.Client{Transport: transport(script)}, Attempts: 2})
		var ids []int64
		outages := 0
		for m, err := range c.Follow(t.Context(), "r", 0, time.Second) {
			if err != nil {
				if !errors.Is(err, client.ErrUnavailable) {
					t.Fatal(err)
				}
				outages++
				continue
			}
			ids = append(ids, m.ID)
		}
		want := make([]int64, 20)
		for i := range want {
			want[i] = int64(i) + 1
		}
		if diff := cmp.Diff(want, ids); diff != "" || outages == 0 {
			t.Errorf("%d outages, %s", outages, diff)
		}
		if took := time.Since(start); took > 80*time.Second {
			t.Errorf("it ended after %s", took)
		}
	})
}

func TestFollowEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		status := 200
		script := func(*http.Request) (*http.Response, error) { return answer(status, `{"messages":[]}`), nil }
		c := newClient(t, client.Config{HTTP: &http.Client{Transport: transport(script)}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for _, err := range c.Follow(ctx, "r", 0, time.Second) {
			t.Error(err)
		}
		status = 404
		n := 0
		for _, err := range c.Follow(t.Context(), "r", 0, time.Second) {
			if n++; !errors.Is(err, client.ErrNotFound) {
				t.Error(err)
			}
		}
		if n != 1 {
			t.Errorf("%d errors", n)
		}
	})
}
