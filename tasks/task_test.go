package tasks

import (
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

func TestDominatingModel(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		models []Model
		want   []string
	}{
		"most dollars":              {[]Model{{"a", 1, 100}, {"b", 2, 1}}, []string{"b", "a"}},
		"most tokens where no cost": {[]Model{{"a", 0, 1}, {"b", 0, 100}}, []string{"b", "a"}},
		"an unpriced one is last":   {[]Model{{"a", 0, 100}, {"b", 1, 1}}, []string{"b", "a"}},
		"equal dollars":             {[]Model{{"b", 1, 100}, {"a", 1, 1}}, []string{"a", "b"}},
		"equal tokens":              {[]Model{{"b", 0, 1}, {"a", 0, 1}}, []string{"a", "b"}},
		"no name":                   {[]Model{{"", 100, 0}, {"a", 0, 10}, {"b", 1, 10}}, []string{"b", "a", ""}},
		"no name at all":            {[]Model{{"", 100, 0}}, []string{""}},
	} {
		for range 2 {
			sortModels(test.models)
			var got []string
			for _, m := range test.models {
				got = append(got, m.Name)
			}
			if diff := gocmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s:\n%s", name, diff)
			}
			slices.Reverse(test.models)
		}
	}
}

func TestMarksAreDue(t *testing.T) {
	t.Parallel()
	m := newMarks()
	bucket := func(i int) time.Time { return noon.Truncate(bucket).Add(time.Duration(i) * bucket) }
	mark := func(i int, id uint64, open bool) clickhouse.TaskMark {
		return clickhouse.TaskMark{Bucket: bucket(i), Mark: id, Open: open}
	}
	split, now := bucket(0).Unix(), noon
	for _, step := range []struct {
		name  string
		pass  time.Duration
		marks []clickhouse.TaskMark
		due   []int
		news  bool
	}{
		{"nothing", 0, nil, nil, false},
		{"written", 0, []clickhouse.TaskMark{mark(1, 1, false), mark(2, 1, false)}, []int{1, 2}, true},
		{"the same again", time.Second, []clickhouse.TaskMark{mark(1, 1, false), mark(2, 1, false)}, nil, false},
		{"another of a bucket", time.Second, []clickhouse.TaskMark{mark(1, 1, false), mark(1, 2, false)}, []int{1}, true},
		{"opened", time.Second, []clickhouse.TaskMark{mark(3, 3, true), mark(-1, 3, true)}, []int{3, -1}, true},
		{"still open", time.Second, []clickhouse.TaskMark{mark(3, 3, true), mark(-1, 3, true)}, []int{3}, false},
		{"open for longer", peekEvery, []clickhouse.TaskMark{mark(3, 3, true), mark(-1, 3, true)}, []int{3, -1}, false},
		{"one of them completed", time.Second, []clickhouse.TaskMark{mark(3, 3, false), mark(-1, 3, true)}, []int{3}, true},
		{"the other under an old date", time.Second, nil, []int{-1}, true},
		{"and seen after all", time.Second, []clickhouse.TaskMark{mark(-1, 3, false)}, nil, false},
		{"remembered", rememberFor + time.Second, []clickhouse.TaskMark{mark(1, 2, false)}, nil, false},
		{"remembered for having been seen", rememberFor + time.Second, []clickhouse.TaskMark{mark(1, 2, false)}, nil, false},
		{"forgotten", time.Second, []clickhouse.TaskMark{mark(1, 1, false)}, []int{1}, true},
	} {
		now = now.Add(step.pass)
		due, news := m.note(clickhouse.TaskMarks{Now: now, Marks: step.marks}, split)
		var want []int64
		for _, i := range step.due {
			want = append(want, bucket(i).Unix())
		}
		if diff := gocmp.Diff(want, due); diff != "" || news != step.news {
			t.Errorf("%s: news %v, due:\n%s", step.name, news, diff)
		}
	}
}

func TestSnapshotsShareAndDiffer(t *testing.T) {
	t.Parallel()
	changed := func(a, b *Snapshot) []string { return slices.Sorted(a.Changed(b)) }
	one := emptySnapshot(newDropped().seed, newDropped()).with(noon, noon, map[string]*Task{"a": {Name: "a"}, "b": {Name: "b"}, "c": {Name: "c"}})
	two := one.with(noon, noon, map[string]*Task{"a": {Name: "a", Runs: 2}, "c": nil, "d": {Name: "d"}, "e": nil})
	three := two.with(noon, noon, nil)
	if one.Len() != 3 || two.Len() != 3 || three.Len() != 3 {
		t.Errorf("%d, %d and %d tasks, want 3 each", one.Len(), two.Len(), three.Len())
	}
	if x, ok := one.Task("a"); !ok || x.Runs != 0 {
		t.Errorf("an old snapshot changed: %+v, %v", x, ok)
	}
	if x, ok := two.Task("c"); ok {
		t.Errorf("a task that is gone: %+v", x)
	}
	for name, test := range map[string]struct{ got, want []string }{
		"from nothing": {changed(one, nil), []string{"a", "b", "c"}},
		"one step":     {changed(two, one), []string{"a", "c", "d"}},
		"two steps":    {changed(three, one), []string{"a", "c", "d"}},
		"no step":      {changed(three, two), nil},
	} {
		if diff := gocmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"no period":        func(c *Config) { c.Every = 0 },
		"no reconciling":   func(c *Config) { c.Reconcile = -1 },
		"no timeout":       func(c *Config) { c.Timeout = 0 },
		"a short window":   func(c *Config) { c.Window = time.Hour },
		"a short memory":   func(c *Config) { c.Retain = time.Hour },
		"no task in it":    func(c *Config) { c.MaxTasks = 0 },
		"the zero value":   func(c *Config) { *c = Config{} },
		"a negative bound": func(c *Config) { c.MaxTasks = -1 },
	} {
		c := DefaultConfig()
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		if change(&c); c.Validate() == nil {
			t.Errorf("%s passes", name)
		}
	}
}
