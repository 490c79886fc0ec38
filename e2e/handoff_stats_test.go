package e2e

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// stats: what became of handoffs, and what it saved to go on from one instead
// of replaying the context of the run that wrote it.
func stats(t *testing.T, s *service, w *witness) {
	const writer, reader, body = "stats-writer", "stats-reader", "ten bytes!"
	last := call{
		ID: "stats-1", Time: time.Now().UTC().Truncate(time.Millisecond), Project: "stats", Run: writer, Model: "claude-opus-4-8",
		Input: 1000, CacheRead: 50_000, CacheWrite5m: 2000, Output: 10,
	}
	first := call{ID: "stats-2", Time: last.Time, Project: "stats", Run: reader, Model: "claude-opus-4-8", Input: 1}
	post(t, []call{last, first}, s)
	as := func(run string) *client.Client {
		return s.chatAs(t, client.Config{HTTP: &http.Client{Transport: w}, RequestID: run})
	}
	for key, kind := range map[string]string{"stats/read": "plan", "stats/unread": "plan", "stats/other": "review", "stats/gone": "plan"} {
		if _, err := as(writer).PutHandoff(t.Context(), wire.HandoffWrite{HandoffKey: key, Project: "stats", Kind: kind, Body: body}, client.Precondition{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := as(writer).DeleteHandoff(t.Context(), "stats/gone", client.Precondition{}); err != nil {
		t.Fatal(err)
	}
	if _, err := as(reader).Handoff(t.Context(), "stats/read"); err != nil {
		t.Fatal(err)
	}
	var got *wire.HandoffStats
	until(t, "the ledger knows of the handoffs", func() bool {
		var err error
		if got, err = as("").HandoffStats(t.Context(), url.Values{"project": {"stats"}, "stale_after": {"1s"}}); err != nil {
			t.Fatal(err)
		}
		return got.Open.Count == 3 && got.ReadAfterWrite.Writes == 4 && got.Continuations.Estimated == 1 && got.Open.Stale == 3
	})
	if got.Open.NeverRead != 2 || len(got.NeverRead) != 2 || len(got.OpenBy) != 2 || got.ReadAfterWrite.Read != 1 {
		t.Errorf("%+v", got)
	}
	if size := got.Size.MaxBytes; size == nil || *size != uint64(len(body)) {
		t.Errorf("sizes: %+v", got.Size)
	}
	saved := last.Input + last.CacheRead + last.CacheWrite5m - (uint64(len(body))+3)/4
	c := got.Continuations
	if c.Count != 1 || c.ApproximateSavedTokens != saved || c.ApproximateSavedUSD == nil || c.UnpricedTokens != 0 {
		t.Errorf("%d tokens were saved: %+v", saved, c)
	}
}
