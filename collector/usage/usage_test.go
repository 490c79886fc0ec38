package usage

import (
	"testing"
	"time"
)

func TestBucket(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]string{
		"2026-11-30T18:00:00Z":           "2026-11-30T18:00:00Z",
		"2026-11-30T18:04:59.999999999Z": "2026-11-30T18:00:00Z",
		"2026-11-30T18:05:00Z":           "2026-11-30T18:05:00Z",
		"2026-11-30T18:07:00+05:45":      "2026-11-30T12:20:00Z",
		"2026-12-31T23:59:59Z":           "2026-12-31T23:55:00Z",
		"1969-12-31T23:59:59Z":           "1969-12-31T23:55:00Z",
	} {
		in, err := time.Parse(time.RFC3339Nano, at)
		if err != nil {
			t.Fatal(err)
		}
		got := Bucket(in)
		if got.Format(time.RFC3339Nano) != want || got.Location() != time.UTC {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
		// The store aligns to the Unix epoch.
		if got.Unix()%int64(BucketSize/time.Second) != 0 {
			t.Errorf("%s is not aligned to the epoch", got)
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	k := Tokens{Input: 1, Output: 10, CacheRead: 100, CacheWrite: 1000, CacheWrite5m: 300, CacheWrite1h: 400}
	if k.Total() != 1111 {
		t.Errorf("total %d: the split of the writes is part of them", k.Total())
	}
	if k.Prompt() != 1101 {
		t.Errorf("prompt %d: everything but the output", k.Prompt())
	}
	if k.IsZero() || !(Tokens{}).IsZero() {
		t.Error("IsZero")
	}
}

func TestFactsLen(t *testing.T) {
	t.Parallel()
	f := Facts{Events: make([]Event, 1), Samples: make([]Sample, 2), Links: make([]Link, 4), Ends: make([]End, 8)}
	if f.Len() != 15 || new(Facts).Len() != 0 {
		t.Errorf("len %d", f.Len())
	}
}
