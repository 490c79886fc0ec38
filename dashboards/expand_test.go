package dashboards

import (
	"strings"
	"testing"
	"time"
)

func TestExpand(t *testing.T) {
	t.Parallel()
	c := Choice{
		From: time.Unix(1000, 5), To: time.Unix(2000, 0), Interval: 90 * time.Second,
		Values: map[string][]string{"kind": {"it's", `a\\`, "$__fromTime"}, "task": {"a 'b' %+ü"}, "two": {"a", "b"}},
	}
	for text, want := range map[string]string{
		"$__timeFilter(time)":                     "time >= toDateTime(1000) AND time <= toDateTime(2000)",
		"$__timeInterval(time)":                   "toStartOfInterval(toDateTime(time), INTERVAL 90 second)",
		"$__toTime - $__fromTime > $__interval_s": "toDateTime(2000) - toDateTime(1000) > 90",
		"$__conditionalAll(if(kind = '', 'x', y) IN (${repo:singlequote}), $repo)": "1=1",
		"$__conditionalAll(kind IN (${kind:singlequote}), $kind)":                  `kind IN ('it\'s','a\\','$__fromTime')`,
		"'${task:percentencode}'": "'a%20%27b%27%20%25%2B%C3%BC'",
		"${none:singlequote}":     "''",
	} {
		if got, err := (Query{SQL: text}).Expand(c); err != nil || got != want {
			t.Errorf("%s:\n got %s, %v\nwant %s", text, got, err, want)
		}
	}
	for _, bad := range []string{
		"$__timeFilter", "$__timeFilter(a + b)", "$__timeGroup(time, 5)", "$__fromTime(x)", "${kind}", "${kind:raw}",
		"${two:percentencode}", "$__conditionalAll(1)", "$__conditionalAll((1, $kind)",
	} {
		if got, err := (Query{SQL: bad}).Expand(c); err == nil {
			t.Errorf("%s became %s", bad, got)
		}
	}
}

// A shorter interval than a second is one.
func TestShortIntervals(t *testing.T) {
	t.Parallel()
	got, err := Query{SQL: "$__interval_s"}.Expand(Choice{Interval: time.Millisecond})
	if err != nil || !strings.HasPrefix(got, "1") {
		t.Errorf("%s, %v", got, err)
	}
}
