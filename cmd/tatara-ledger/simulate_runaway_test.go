package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/simulate"
)

// TestSimulateRunawayLinks: the runs are linked before anything is pushed.
func TestSimulateRunawayLinks(t *testing.T) {
	t.Parallel()
	var links []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		links = append(links, r.Method+" "+r.URL.Path+" "+strings.TrimSpace(string(body)))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{}`)
	}))
	defer service.Close()
	out, _, n, err := runSimulate(t, http.StatusNoContent, "runaway", "--url", service.URL, "--task", "T-1", "--pod-prefix", "t1",
		"--pods", "2", "--pushes", "5", "--usd", "2.5", "--interval", "0", "--format", "json")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`PUT /v1/runs/t1-0-0 {"pod":"t1-0","task":"T-1"}`, `PUT /v1/runs/t1-1-0 {"pod":"t1-1","task":"T-1"}`}
	if diff := cmp.Diff(want, links); diff != "" {
		t.Error(diff)
	}
	var truth struct {
		simulate.Truth
		Total simulate.Sum `json:"total"`
	}
	if err := json.Unmarshal([]byte(out), &truth); err != nil {
		t.Fatal(err)
	}
	if n != 5+2*2 || truth.Total.Cost.Nano < 2.5e9 || truth.Total.Cost.Nano > 2.5e9+500 ||
		slices.ContainsFunc(truth.Rows, func(r simulate.Row) bool { return r.Task != "T-1" }) {
		t.Errorf("%d requests: %s", n, out)
	}
}

func TestSimulateRunawayMistakes(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`--usd "much": want dollars`:       {"--usd", "much"},
		"the cost is 0":                    {"--usd", "0"},
		"2 pushes of 3 pods":               {"--pushes", "2"},
		"linking run x-0-0":                {"--task", "T", "--pod-prefix", "x", "--url", "http://127.0.0.1:1"},
		"house-llm: input of it have no p": {"--models", "house-llm"},
	} {
		args = append([]string{"runaway"}, args...)
		if _, _, n, err := runSimulate(t, http.StatusNoContent, args...); err == nil || !strings.Contains(err.Error(), want) || n > 0 {
			t.Errorf("%v: %v, want %q, %d requests", args, err, want, n)
		}
	}
	// Without a task nothing is linked: there is no service.
	if out, _, _, err := runSimulate(t, http.StatusNoContent, "runaway", "--url", "http://127.0.0.1:1", "--interval", "0"); err != nil || !strings.Contains(out, "runaway-1") {
		t.Errorf("%v: %s", err, out)
	}
}
