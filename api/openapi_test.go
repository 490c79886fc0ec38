package api

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/api/apitest"
	"github.com/szymonrychu/tatara-ledger/collector/receive"
)

var described = sync.OnceValues(func() (*apitest.Document, error) {
	raw, err := OpenAPI()
	if err != nil {
		return nil, err
	}
	return apitest.Parse(raw)
})

func openAPIDocument(t testing.TB) *apitest.Document {
	t.Helper()
	d, err := described()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestEveryRouteIsDescribed: and nothing is described that is not there.
func TestEveryRouteIsDescribed(t *testing.T) {
	t.Parallel()
	openAPIDocument(t)
	raw, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for path, item := range doc.Paths {
		for method := range item {
			if method == "parameters" || method == "servers" {
				continue
			}
			route := strings.ToUpper(method) + " " + path
			want[route] = true
			if strings.Contains(string(item["servers"]), chatPrefix) {
				want[strings.ToUpper(method)+" "+chatPrefix+path] = true
			}
		}
	}
	got := map[string]bool{}
	reg := prometheus.NewRegistry()
	cfg := Config{Registry: reg, Fleet: http.NotFoundHandler(), Log: slog.New(slog.DiscardHandler), Receiver: receive.New(receive.DefaultConfig(), discard{}, nil, slog.New(slog.DiscardHandler), reg)}
	for _, mux := range []chi.Routes{mainRoutes(cfg), pushRoutes(cfg)} {
		err := chi.Walk(mux, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			// The receiver of pushes is one handler for every method.
			if route != "/internal/metrics/push" || method == http.MethodPost || method == http.MethodDelete {
				got[method+" "+route] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("(-described +served):\n%s", diff)
	}
}
