package postgres

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/szymonrychu/tatara-ledger/store"
)

var unset = cmpopts.IgnoreFields(store.CeilingOverride{}, "SetAt")

func TestCeilingsOfTasks(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	if _, err := s.CeilingOverride(t.Context(), "t"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of a task that has none: %v", err)
	}
	cost, tokens, output := int64(5e9), int64(1000), int64(7)
	var want []store.CeilingOverride
	for i, o := range []store.CeilingOverride{
		{Task: "t", CostNano: &cost},
		{Task: "t", Tokens: &tokens, OutputTokens: &output},
		{Task: "t", Exempt: true},
		{Task: "t"},
	} {
		a := store.Actor{Name: fmt.Sprint("admin ", i), RequestID: fmt.Sprint("r", i)}
		set, err := s.SetCeiling(t.Context(), a, o)
		if err != nil {
			t.Fatal(err)
		}
		o.SetBy, o.RequestID = a.Name, a.RequestID
		if diff := cmp.Diff(o, set, unset); diff != "" || time.Since(set.SetAt) > time.Minute {
			t.Errorf("set at %v:\n%s", set.SetAt, diff)
		}
		got, err := s.CeilingOverride(t.Context(), "t")
		if diff := cmp.Diff(set, got); diff != "" || err != nil {
			t.Errorf("error %v\n%s", err, diff)
		}
		want = append([]store.CeilingOverride{set}, want...)
	}
	got, err := s.CeilingChanges(t.Context(), "t", 10)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("changes: error %v\n%s", err, diff)
	}
}

// A repeat of a change whose answer was lost neither changes anything again nor
// is written down twice.
func TestEveryExchangeOfACeilingIsLostOnce(t *testing.T) {
	t.Parallel()
	address := engines.Postgres(t)
	direct := openStore(t, address)
	if _, err := direct.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, arm := range []func(*proxy, int) <-chan struct{}{(*proxy).loseQuery, (*proxy).loseReply} {
		for n, lost := 1, true; lost; n++ {
			p, through := newProxy(t, address)
			s := openStore(t, through)
			if err := s.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			before, err := direct.CeilingChanges(t.Context(), "t", 1000)
			if err != nil {
				t.Fatal(err)
			}
			arm(p, n)
			set, err := s.SetCeiling(t.Context(), actor, store.CeilingOverride{Task: "t", Exempt: n%2 == 0})
			lost = p.disarm()
			if err != nil {
				t.Fatal(err)
			}
			after, err := direct.CeilingChanges(t.Context(), "t", 1000)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(append([]store.CeilingOverride{set}, before...), after); diff != "" {
				t.Errorf("%d lost:\n%s", n, diff)
			}
			s.Close()
		}
	}
}

func TestTheEndOfATask(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	first, err := s.EndTask(t.Context(), store.Actor{Name: "ann"}, "t")
	if err != nil || first.Task != "t" || first.By != "ann" || time.Since(first.At) > time.Minute {
		t.Fatalf("%+v, error %v", first, err)
	}
	second, err := s.EndTask(t.Context(), store.Actor{Name: "bob"}, "t")
	if err != nil || second.By != "bob" || !second.At.After(first.At) {
		t.Errorf("%+v after %+v, error %v", second, first, err)
	}
}
