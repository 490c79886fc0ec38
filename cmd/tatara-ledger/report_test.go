package main

import (
	"testing"

	"github.com/szymonrychu/tatara-ledger/api/wire"
)

func TestLegend(t *testing.T) {
	t.Parallel()
	cost := "1.5"
	tests := []struct {
		cost                   *string
		approximate, estimated bool
		want                   string
	}{
		{&cost, false, false, ""},
		{nil, true, true, ""}, // no cost, no mark
		{&cost, true, false, "\n~ approximate"},
		{&cost, true, true, "\n~ approximate; ? partly as reported by the source, not priced by us"},
	}
	for _, tt := range tests {
		s := &wire.Spend{}
		s.Total.CostUSD, s.Total.Approximate, s.Total.Estimated = tt.cost, tt.approximate, tt.estimated
		if got := legend(s); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}
