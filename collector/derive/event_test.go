package derive

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// TestEventPrices are public reports of mispriced calls.
func TestEventPrices(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		event    usage.Event
		want     string // dollars; "" is unpriced
		unpriced uint64
	}{
		{
			"ccusage#899: one-hour writes have their own price",
			usage.Event{Labels: usage.Labels{Model: "claude-sonnet-4-6"}, Tokens: usage.Tokens{CacheWrite: 3904, CacheWrite1h: 3904}},
			"0.023424", 0,
		},
		{
			"litellm#9812, bifrost#3451: writes are charged once",
			usage.Event{Labels: usage.Labels{Model: "claude-sonnet-3-7"}, Tokens: usage.Tokens{Input: 3, CacheWrite: 12304, Output: 550}},
			"0.054399", 0,
		},
		{
			"Helicone#5779, litellm#30135: the whole request is at the high tier",
			usage.Event{Labels: usage.Labels{Model: "claude-sonnet-4"}, Tokens: usage.Tokens{Input: 10_000, CacheRead: 240_000}},
			"0.204", 0,
		},
		{
			"ccusage#934: a mini model is not its big sister",
			usage.Event{Labels: usage.Labels{Model: "claude-sonnet-4-6-mini"}, Tokens: usage.Tokens{Input: 1000}},
			"", 1000,
		},
		{
			"ccusage#934: a dated suffix is the same model",
			usage.Event{Labels: usage.Labels{Model: "claude-sonnet-4-20250514"}, Tokens: usage.Tokens{Input: 1000}},
			"0.003", 0,
		},
		{
			"litellm#38056: an unknown model is unpriced, not 0 or -1",
			usage.Event{Labels: usage.Labels{Model: "nobody-knows"}, Tokens: usage.Tokens{Input: 10, Output: 5}},
			"", 15,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.event.Time = noon
			got := New(book(t), nil).Event(&c.event, nil)
			cost := ""
			if got.Cost.Valid {
				cost = got.Cost.Nano.String()
			}
			if cost != c.want || got.Computed != got.Cost || got.UnpricedTokens != c.unpriced || got.Estimated || got.Requests != 1 {
				t.Errorf("costs %q, %+v", cost, got)
			}
		})
	}
}

func TestEventCounts(t *testing.T) {
	t.Parallel()
	d := New(book(t), nil)
	known := usage.Event{Time: noon, Labels: usage.Labels{Model: "claude-opus-4-8"}, Tokens: usage.Tokens{Input: 1_000_000}, Reported: usage.Some(7)}
	if c := d.Event(&known, nil); c.Cost != usage.Some(5e9) || c.Reported != usage.Some(7) || c.Estimated {
		t.Errorf("computed goes before reported: %+v", c)
	}
	unknown := known
	unknown.Labels.Model = "nobody-knows"
	if c := d.Event(&unknown, nil); c.Cost != usage.Some(7) || !c.Estimated || c.Computed.Valid || c.UnpricedTokens != 1_000_000 {
		t.Errorf("reported is an estimate: %+v", c)
	}
}

func TestEventLink(t *testing.T) {
	t.Parallel()
	e := usage.Event{Time: noon, Labels: usage.Labels{Task: "own", Session: "s"}}
	link := &usage.Link{Run: "run", Task: "linked", Repo: "r", Session: "other", Kind: "k", Issue: "i", Effort: "low", Project: "p"}
	got := New(book(t), nil).Event(&e, link)
	want := usage.Labels{Task: "own", Session: "s", Run: "run", Repo: "r", Kind: "k", Issue: "i", Effort: "low", Project: "p"}
	if diff := cmp.Diff(want, got.Labels); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.FactRun != "" {
		t.Error("FactRun is the run as the fact says it")
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	const window = 48 * time.Hour
	event := func(content byte, hours int) usage.Event {
		return usage.Event{Content: usage.ID{content}, Arrived: noon.Add(time.Duration(hours) * time.Hour)}
	}
	for name, c := range map[string]struct {
		events, winners, losers []usage.Event
	}{
		"none":                                 {},
		"openmeter#5118: the same again":       {[]usage.Event{event(1, 0), event(1, 1)}, []usage.Event{event(1, 0)}, nil},
		"the same at any distance":             {[]usage.Event{event(1, 0), event(1, 9999)}, []usage.Event{event(1, 0)}, nil},
		"another content: the first wins":      {[]usage.Event{event(2, 0), event(1, 1)}, []usage.Event{event(2, 0)}, []usage.Event{event(1, 1)}},
		"at the end of the window":             {[]usage.Event{event(1, 0), event(2, 48)}, []usage.Event{event(1, 0)}, []usage.Event{event(2, 48)}},
		"after the window the id is used anew": {[]usage.Event{event(1, 0), event(2, 49)}, []usage.Event{event(1, 0), event(2, 49)}, nil},
		"the window counts from the winner": {
			[]usage.Event{event(1, 0), event(2, 40), event(3, 80)},
			[]usage.Event{event(1, 0), event(3, 80)},
			[]usage.Event{event(2, 40)},
		},
		"at the same instant": {[]usage.Event{event(2, 0), event(1, 0)}, []usage.Event{event(1, 0)}, []usage.Event{event(2, 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(1, 1))
			for range 10 {
				rnd.Shuffle(len(c.events), func(i, j int) { c.events[i], c.events[j] = c.events[j], c.events[i] })
				winners, losers := Resolve(c.events, window)
				if diff := cmp.Diff(c.winners, winners); diff != "" {
					t.Errorf("winners (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(c.losers, losers); diff != "" {
					t.Errorf("losers (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestLatestLink(t *testing.T) {
	t.Parallel()
	if LatestLink(nil) != nil {
		t.Error("a link of nothing")
	}
	a, b := usage.Link{Run: "r", Task: "a", Arrived: noon}, usage.Link{Run: "r", Task: "b", Arrived: noon.Add(1)}
	if LatestLink([]usage.Link{b, a}).Task != "b" || LatestLink([]usage.Link{a, b}).Task != "b" {
		t.Error("the last to arrive counts")
	}
	b.Arrived = noon
	if *LatestLink([]usage.Link{a, b}) != *LatestLink([]usage.Link{b, a}) {
		t.Error("links of one instant depend on their order")
	}
}
