package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/simulate"
)

// runSimulate runs "tatara-ledger simulate ARGS" against a receiver that
// answers with a status.
func runSimulate(t *testing.T, status int, args ...string) (out, errOut string, requests int, err error) {
	t.Helper()
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		w.WriteHeader(status)
	}))
	defer server.Close()
	cmd := newSimulateCommand()
	var stdout, stderr strings.Builder
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append(args, "--push-url", server.URL))
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), int(n.Load()), err
}

func TestSimulateTable(t *testing.T) {
	t.Parallel()
	truthFile := filepath.Join(t.TempDir(), "truth.json")
	out, summary, n, err := runSimulate(t, http.StatusNoContent, "--pods", "12", "--interval", "0", "--models", "claude-opus-4-8,house-llm",
		"--repos", `widgets,""`, "--seed", "3", "--truth", truthFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"task", "sim-3-implement-0000", "widgets", "unpriced", "tokens have no price", "all", "turns: "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if n == 0 || !strings.Contains(summary, "0 not acknowledged to their end") || strings.Contains(summary, "%") {
		t.Errorf("%d requests: %s", n, summary)
	}
	text, err := os.ReadFile(truthFile)
	if err != nil {
		t.Fatal(err)
	}
	var truth simulate.Truth
	if err := json.Unmarshal(text, &truth); err != nil {
		t.Fatal(err)
	}
	cfg := simulate.DefaultConfig()
	cfg.Pods, cfg.Seed, cfg.Models, cfg.Repos = 12, 3, []string{"claude-opus-4-8", "house-llm"}, []string{"widgets", ""}
	fleet, err := simulate.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fleet.Planned(time.Now()), truth); diff != "" {
		t.Error(diff)
	}
}

func TestSimulateJSON(t *testing.T) {
	t.Parallel()
	out, _, n, err := runSimulate(t, http.StatusNoContent, "--pods", "6", "--interval", "0", "--duplicate", "--shuffle", "--until-acknowledged", "--format", "json")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		simulate.Truth
		Kinds  map[string]simulate.Sum `json:"by_kind"`
		Total  simulate.Sum            `json:"total"`
		Report simulate.Report         `json:"report"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) == 0 || got.Seed != 1 || got.Total != got.Truth.Total() || got.Report.Requests != n || got.Report.Copies != n/2 {
		t.Errorf("%d requests: %s", n, out)
	}
	if diff := cmp.Diff(got.By(simulate.ByKind), got.Kinds); diff != "" {
		t.Error(diff)
	}
}

// TestSimulateUnacknowledged: the exit code says that the truth is not whole.
func TestSimulateUnacknowledged(t *testing.T) {
	t.Parallel()
	out, summary, _, err := runSimulate(t, http.StatusServiceUnavailable, "--pods", "2", "--interval", "0", "--until-acknowledged", "--patience", "50ms")
	if err == nil || !strings.Contains(err.Error(), "lives were not acknowledged to their end") {
		t.Errorf("%v", err)
	}
	if !strings.Contains(summary, "answered 503") || strings.Contains(out, "sim-1") {
		t.Errorf("%s\n%s", out, summary)
	}
}

func TestSimulateReplay(t *testing.T) {
	t.Parallel()
	out, _, n, err := runSimulate(t, http.StatusNoContent, "replay")
	if err != nil || n != 21 || !strings.HasPrefix(out, "21 requests in ") {
		t.Errorf("%d requests, %v: %s", n, err, out)
	}
	if _, _, n, err := runSimulate(t, http.StatusNoContent, "replay", "../../simulate/testdata/wrapper-push"); err != nil || n != 21 {
		t.Errorf("%d requests, %v", n, err)
	}
	if _, _, _, err := runSimulate(t, http.StatusBadRequest, "replay"); err == nil || err.Error() != "21 of 21 requests were not acknowledged" {
		t.Error(err)
	}
	if _, _, _, err := runSimulate(t, http.StatusNoContent, "replay", "/nowhere"); err == nil || !strings.Contains(err.Error(), "opening the recording") {
		t.Error(err)
	}
}

func TestSimulateMistakes(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`unknown --format "xml": want table or json`: {"--format", "xml"},
		"pods is 0":              {"--pods", "0"},
		"opening the price file": {"--prices", "/nowhere/prices.yaml"},
		"want http(s)://host":    {"--push-url", "nowhere"},
		`unknown command`:        {"bogus"},
	} {
		if _, _, n, err := runSimulate(t, http.StatusNoContent, args...); err == nil || !strings.Contains(err.Error(), want) || n > 0 {
			t.Errorf("%v: %v, want %q, %d requests", args, err, want, n)
		}
	}
}
