package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// TestDollars: the sum of what the increases cost, as a receiver prices them,
// is what the truth says.
func TestDollars(t *testing.T) {
	t.Parallel()
	book, err := pricing.Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, func(c *Config) {
		c.Models = append(c.Models, "house-llm", "claude-haiku-5-5", "gemini-2.5-pro")
		c.Pods = 100
	})
	now := time.Now()
	truth := f.Planned(now)
	want := map[Key]Sum{}
	for _, p := range f.pods {
		for _, l := range p.lives {
			for _, turn := range l.turns[:l.pushes[len(l.pushes)-1].turns] {
				for _, s := range turn.tokens {
					price := book.Price(pricing.Usage{Model: s.model, Time: now, Tokens: usage.Tokens{
						Input: s.input, Output: s.output, CacheRead: s.cacheRead, CacheWrite: s.cacheCreate,
					}})
					k := Key{Task: p.name, Project: p.project, Repo: p.repo, Kind: p.kind, Model: s.model}
					sum := want[k]
					sum.Add(Sum{Input: s.input, Output: s.output, CacheRead: s.cacheRead, CacheWrite: s.cacheCreate, Cost: Cost(price.Computed), UnpricedTokens: price.UnpricedTokens})
					want[k] = sum
				}
			}
		}
	}
	got := map[Key]Sum{}
	for _, r := range truth.Rows {
		got[r.Key] = r.Sum
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	models := truth.By(ByModel)
	if s := models["house-llm"]; s.Cost.Valid || s.UnpricedTokens != s.Tokens() || s.Tokens() == 0 || s.Cost.String() != "unpriced" {
		t.Errorf("an unknown model: %+v", s)
	}
	if s := models["gemini-2.5-pro"]; !s.Cost.Valid || s.UnpricedTokens == 0 {
		t.Errorf("a model without a read price: %+v", s)
	}
	var total Sum
	for _, s := range truth.By(ByKind) {
		total.Add(s)
	}
	if total != truth.Total() {
		t.Errorf("%+v by kind, %+v in all", total, truth.Total())
	}
}

func TestTruthReadsBack(t *testing.T) {
	t.Parallel()
	truth := newFleet(t, func(c *Config) { c.Models = append(c.Models, "house-llm") }).Planned(time.Now())
	text, err := json.Marshal(truth)
	if err != nil {
		t.Fatal(err)
	}
	var again Truth
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(truth, again); diff != "" {
		t.Error(diff)
	}
	if !bytes.Contains(text, []byte(`"cost_nano":null`)) || !bytes.Contains(text, []byte(`{"task":"sim-1-implement-0000","project":"`)) {
		t.Errorf("%.300s", text)
	}
}

// TestPriceChanges: a price that changes during the run makes the truth
// unknowable.
func TestPriceChanges(t *testing.T) {
	t.Parallel()
	book, err := pricing.Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	day := time.Date(2026, 10, 7, 0, 0, 0, 0, time.UTC)
	models := []string{"claude-opus-4-8", "claude-sonnet-5-5", "house-llm"}
	if err := samePrices(book, models, day.Add(-time.Second), day); !errors.Is(err, ErrPriceChanged) || !strings.Contains(err.Error(), "claude-sonnet-5-5") {
		t.Error(err)
	}
	if err := samePrices(book, models, day, day.Add(time.Hour)); err != nil {
		t.Error(err)
	}
}

func TestCostJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"null", "0", "-5", "9223372036854775807"} {
		var c Cost
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatal(err)
		}
		if again, err := json.Marshal(c); err != nil || string(again) != text {
			t.Errorf("%s became %s, %v", text, again, err)
		}
	}
	var c Cost
	if err := json.Unmarshal([]byte(`"1"`), &c); err == nil {
		t.Error("text was read as an amount")
	}
}
