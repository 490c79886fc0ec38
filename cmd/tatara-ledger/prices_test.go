package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runPrices runs "tatara-ledger prices ARGS".
func runPrices(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := newPricesCommand()
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func mustRunPrices(t *testing.T, args ...string) string {
	t.Helper()
	out, err := runPrices(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPricesList(t *testing.T) {
	t.Parallel()
	plain, list := mustRunPrices(t, "--at", "2026-10-01"), mustRunPrices(t, "list", "--at", "2026-10-01")
	if plain != list {
		t.Error("prices and prices list differ")
	}
	for _, want := range []string{"claude-sonnet-5-5", "2026-09-28", "200000", "22.5"} {
		if !strings.Contains(list, want) {
			t.Errorf("the table lacks %q:\n%s", want, list)
		}
	}
	if strings.Contains(list, "claude-haiku-5-5") {
		t.Error("the table has a row of later")
	}
}

func TestPricesListFormats(t *testing.T) {
	t.Parallel()
	args := []string{"--model", "claude-sonnet-5-5-20260928"}
	var rows []struct {
		Model     string      `json:"model"`
		ValidFrom string      `json:"valid_from"`
		Read      json.Number `json:"cache_read"`
		Fast      *float64    `json:"fast"`
		Row       string      `json:"row"`
	}
	if err := json.Unmarshal([]byte(mustRunPrices(t, append(args, "--format", "json")...)), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || rows[0].Read != "0.1" || rows[1].Read != "0.2" || rows[0].Fast != nil ||
		rows[0].ValidFrom != "2026-10-07T00:00:00Z" || !strings.HasPrefix(rows[0].Row, "claude-sonnet-5-5@2026-10-07#") {
		t.Errorf("%+v", rows)
	}
	records, err := csv.NewReader(strings.NewReader(mustRunPrices(t, append(args, "--format", "csv")...))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != 3 || records[0][8] != "cache_read" || records[1][8] != "0.1" || records[1][13] != rows[0].Row {
		t.Errorf("%v", records)
	}
}

func TestPricesExplain(t *testing.T) {
	t.Parallel()
	text := mustRunPrices(t, "explain", "--model", "claude-opus-4-8", "--input", "120", "--output", "2400", "--cache-read", "1000",
		"--cache-write-5m", "10", "--cache-write-1h", "20", "--web-searches", "1", "--fast", "--batch", "--inference-geo", "us", "--at", "2026-11-30")
	// (0.0006 + 0.06 + 0.0005 + 0.0000625 + 0.0002) × 0.5 × 1.1 × 2 + 0.01
	for _, want := range []string{"cost:             0.07749875 US$\n", "row:       claude-opus-4-8#", "time:      2026-11-30\n", "modifier:  batch × 0.5"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	counter := mustRunPrices(t, "explain", "--model", "claude-sonnet-4-5", "--cache-write", "300000", "--counter")
	if !strings.Contains(counter, "cost:             1.125 US$ (approximate)") {
		t.Errorf("a counter:\n%s", counter)
	}
}

// TestPricesExplainUnpriced: an unknown model is an answer, not an error.
func TestPricesExplainUnpriced(t *testing.T) {
	t.Parallel()
	args := []string{"explain", "--model", "acme-llm-7b", "--input", "5"}
	if text := mustRunPrices(t, args...); !strings.Contains(text, "no row for model acme-llm-7b") {
		t.Errorf("text:\n%s", text)
	}
	var e map[string]any
	if err := json.Unmarshal([]byte(mustRunPrices(t, append(args, "--format", "json")...)), &e); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"computed_nano", "computed_usd", "cache_savings_nano", "row"} {
		if v, ok := e[key]; !ok || v != nil {
			t.Errorf("%s is %v", key, v)
		}
	}
	if e["unpriced"] != "no row for model acme-llm-7b" || e["unpriced_tokens"] != 5.0 {
		t.Errorf("%v", e)
	}
}

func TestPricesFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ours.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("rows: [{model: house-llm, input: 2}]")
	out := mustRunPrices(t, "explain", "--prices", path, "--model", "house-llm", "--input", "1000000")
	if !strings.Contains(out, "cost:             2 US$\n") || !strings.Contains(out, path+":1") {
		t.Errorf("text:\n%s", out)
	}
	if out := mustRunPrices(t, "--prices", path, "--model", "house-llm", "--format", "csv"); !strings.Contains(out, ",house-llm,,0,2,") {
		t.Errorf("CSV:\n%s", out)
	}
	write("rows: [{model: house-llm, input: 2, output: 1}]")
	for _, command := range []string{"list", "explain"} {
		args := []string{command, "--prices", path, "--model", "house-llm"}
		if _, err := runPrices(t, args...); err == nil || !strings.Contains(err.Error(), path+":1: row house-llm: output 1 < input 2") {
			t.Errorf("%s: %v", command, err)
		}
	}
}

func TestPricesMistakes(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`unknown --format "xml": want table, json or csv`: {"list", "--format", "xml"},
		`unknown --format "csv": want table or json`:      {"explain", "--model", "m", "--format", "csv"},
		"no row for model nobody":                         {"list", "--model", "nobody"},
		"reading --at":                                    {"list", "--at", "yesterday"},
		"reading --at: want":                              {"explain", "--model", "m", "--at", "10/07/2026"},
		"--model is required":                             {"explain"},
		"--cache-write 5 is less than its parts, 6":       {"explain", "--model", "m", "--cache-write", "5", "--cache-write-1h", "6"},
		"tokens are more than any call has":               {"explain", "--model", "m", "--input", "1000000000001"},
		"opening the price file":                          {"--prices", "/nowhere/prices.yaml"},
		`unknown command "bogus"`:                         {"bogus"},
	} {
		if _, err := runPrices(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
