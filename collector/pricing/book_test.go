package pricing

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

func TestUserFileLiesOverTheShippedOne(t *testing.T) {
	t.Parallel()
	b := overlay(t, `
rows:
  - {provider: anthropic, model: claude-opus-4-8, input: 4, output: 20}   # replaces
  - {model: claude-sonnet-4, above_prompt_tokens: 200000, input: 7}        # replaces one tier
  - {model: claude-sonnet-5, valid_from: 2027-06-01, input: 1}             # adds a date
  - {model: house-llm, input: 0, output: 0}                                # adds a model, free
  - {model: house-llm, valid_from: "2026-11-30T12:00:00+01:00", input: 0.5}
aliases:
  house: house-llm
  claude-sonnet-4-0: claude-sonnet-4-5                                     # replaces an alias
`)
	in := usage.Tokens{Input: 1_000_000}
	runPriceCases(t, b, []priceCase{
		{name: "replaced row", u: Usage{Model: "claude-opus-4-8", Tokens: in}, want: "4"},
		{
			name: "a replaced row keeps nothing of the old one", want: "null", lost: 5,
			u: Usage{Model: "claude-opus-4-8", Tokens: usage.Tokens{CacheRead: 5}},
		},
		{name: "replaced tier", u: Usage{Model: "claude-sonnet-4", Tokens: in}, want: "7"},
		{name: "the other tier stays", u: Usage{Model: "claude-sonnet-4", Tokens: usage.Tokens{Input: 1000}}, want: "0.003"},
		{name: "before the added date", u: Usage{Model: "claude-sonnet-5", Tokens: in}, want: "2"},
		{name: "from the added date", u: Usage{Model: "claude-sonnet-5", Tokens: in, Time: late.AddDate(1, 0, 0)}, want: "1"},
		{
			name: "a free model costs 0, which is not unknown", want: "0",
			u: Usage{Model: "house-llm", Tokens: in, Time: late.AddDate(0, -1, 0)},
		},
		{
			name: "time with a zone", want: "0.5", row: "house-llm@2026-11-30T11:00:00Z",
			u: Usage{Model: "house", Tokens: in, Time: time.Date(2026, 11, 30, 11, 0, 0, 0, time.UTC)},
		},
		{name: "replaced alias", u: Usage{Model: "claude-sonnet-4-0", Tokens: usage.Tokens{Input: 1000}}, want: "0.003", row: "claude-sonnet-4-5"},
		{name: "untouched model", u: Usage{Model: "claude-haiku-4-5", Tokens: in}, want: "1"},
	})
	if got := b.RowsOf("claude-opus-4-8")[0].Source; got != "user.yaml:3" {
		t.Errorf("source %q", got)
	}
	if diff := gocmp.Diff(shippedBook(t).Rows(), overlay(t, "# nothing\n").Rows()); diff != "" {
		t.Errorf("an empty file changes rows:\n%s", diff)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	row := func(fields string) string { return "rows:\n  - {model: m, " + fields + "}" }
	for name, c := range map[string]struct{ text, want string }{
		"unknown key of a row":    {row("inptu: 3"), `user.yaml:2: unknown key "inptu" of a row`},
		"unknown key of a file":   {"prices: []", `user.yaml:1: unknown key "prices" of the price file`},
		"key given twice":         {row("input: 3, input: 4"), `user.yaml:2: key "input" of a row is given twice`},
		"alias given twice":       {"aliases:\n  a: claude-opus-5\n  a: claude-opus-5", `user.yaml:3: key "a" of aliases is given twice`},
		"row given twice":         {row("input: 3") + "\n  - {model: m, input: 4, output: 5}", "user.yaml:3: row m is given twice, first at user.yaml:2"},
		"no model":                {"rows: [{input: 3}]", "model: empty name"},
		"model with a space":      {`rows: [{model: "a b", input: 3}]`, `name "a b" with spaces`},
		"no input price":          {row("output: 3"), "row m: input has no price"},
		"negative":                {row("input: -3"), `input "-3": negative`},
		"not a number":            {row("input: cheap"), `input "cheap": not a plain decimal number`},
		"scientific":              {row("input: 3e-6"), `input "3e-6": not a plain decimal number`},
		"infinite":                {row("input: .inf"), `input ".inf": not a plain decimal number`},
		"too many decimals":       {row("input: 0.0000001"), "more than 6 decimals"},
		"absurd":                  {row("input: 1000.5"), "input 1000.5 is over 1000 US$ per million"},
		"absurdly long":           {row("input: 99999999999999999999"), "absurdly large"},
		"null":                    {row("input: "), "input must be a plain value"},
		"list":                    {row("input: [3]"), "input must be a plain value"},
		"output under input":      {row("input: 3, output: 2"), "row m: output 2 < input 3"},
		"output over 50 × input":  {row("input: 3, output: 151"), "output 151 is over 50 times input 3"},
		"read over input":         {row("input: 3, cache_read: 3.1"), "row m: cache_read 3.1 > input 3"},
		"5 m under input":         {row("input: 3, cache_write_5m: 2.9"), "row m: cache_write_5m 2.9 < input 3"},
		"5 m over 4 × input":      {row("input: 3, cache_write_5m: 12.1"), "cache_write_5m 12.1 is over 4 times input 3"},
		"1 h under 5 m":           {row("input: 3, cache_write_5m: 4, cache_write_1h: 3.5"), "row m: cache_write_1h 3.5 < cache_write_5m 4"},
		"1 h under input":         {row("input: 3, cache_write_1h: 2"), "row m: cache_write_1h 2 < input 3"},
		"every rule is said":      {row("input: 3, output: 2, cache_read: 4"), "row m: output 2 < input 3; cache_read 4 > input 3"},
		"batch is a surcharge":    {row("input: 3, batch: 1.5"), "batch 1.5 is over 1"},
		"batch for nothing":       {row("input: 3, batch: 0"), "batch is 0: nothing is free by a factor"},
		"fast is a discount":      {row("input: 3, fast: 0.5"), "fast 0.5 is under 1"},
		"absurd factor":           {row("input: 3, us_inference: 101"), "us_inference 101 is over 100"},
		"absurd with factors":     {row("input: 3, output: 100, fast: 21"), "with its factors the dearest token is over 2000 US$ per million"},
		"absurd search":           {row("input: 3, web_search_per_thousand: 1000.1"), "web_search_per_thousand 1000.1 is over 1000 US$"},
		"threshold with decimals": {row("input: 3, above_prompt_tokens: 0.5"), "above_prompt_tokens"},
		"absurd threshold":        {row("input: 3") + "\n  - {model: m, input: 3, above_prompt_tokens: 200000000000}", "absurdly large"},
		"large threshold":         {row("input: 3") + "\n  - {model: m, input: 3, above_prompt_tokens: 00}\n  - {model: m, input: 3, above_prompt_tokens: 0}", "given twice"},
		"tier without a base":     {row("input: 3, above_prompt_tokens: 5"), "row m>5: no row of this model and valid_from for prompts up to 5 tokens"},
		"bad date":                {row("input: 3, valid_from: 2026-02-30"), `valid_from "2026-02-30" is neither a date`},
		"date of no century":      {row("input: 3, valid_from: 0001-01-01"), "is not in this century"},
		"early date":              {row("input: 3, valid_from: 1999-12-31"), "valid_from 1999-12-31 is not in this century"},
		"alias to nothing":        {"aliases: {a: nobody}", "user.yaml:1: alias a: no row for model nobody"},
		"alias of an alias":       {"aliases: {a: claude-3-7-sonnet}", "alias a: no row for model claude-3-7-sonnet"},
		"alias over a model":      {"aliases: {claude-opus-5: claude-opus-4}", "alias claude-opus-5 has rows of its own"},
		"rows under an alias":     {"rows: [{model: claude-3-7-sonnet, input: 3}]", "alias claude-3-7-sonnet has rows of its own"},
		"rows no list":            {"rows: {}", "rows must be a list"},
		"a list":                  {"[]", "the price file must be a mapping"},
		"row no mapping":          {"rows: [3]", "a row must be a mapping"},
		"key no text":             {"rows: [{[a]: 3}]", "a key of a row must be plain text"},
		"two documents":           {"rows: []\n---\nrows: []", "more than one YAML document"},
		"no YAML":                 {"rows: [", "user.yaml: yaml:"},
		"too long":                {strings.Repeat("#\n", maxFile/2+1), "over 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := Load("user.yaml", strings.NewReader(c.text))
			if b != nil || !errors.Is(err, ErrRefused) {
				t.Fatalf("book %v, error %v", b, err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q does not say %q", err, c.want)
			}
		})
	}
}

func TestRefusalsAreSaidTogether(t *testing.T) {
	t.Parallel()
	_, err := Load("user.yaml", strings.NewReader("rows:\n  - {model: a, input: -1, colour: red}\n  - {model: b, input: 2, output: 1}"))
	for _, want := range []string{"user.yaml:2: input", `user.yaml:2: unknown key "colour"`, "user.yaml:3: row b"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

func TestLoadFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "prices.yaml")
	if _, err := LoadFile(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(path, []byte("rows: [{model: house-llm, input: 1}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := LoadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.RowsOf("house-llm")) != 1 || len(b.RowsOf("claude-opus-5")) != 1 || b.RowsOf("nobody") != nil {
		t.Error("rows are missing")
	}
	if _, err := Load("user.yaml", iotest.ErrReader(os.ErrClosed)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a broken reader: %v", err)
	}
}

func TestRowIdentity(t *testing.T) {
	t.Parallel()
	r := Row{
		Model: "claude-sonnet-4", ValidFrom: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), AbovePromptTokens: 200_000,
		Input: NullRate{3_000_000, true},
	}
	if got := r.ID(); got != "claude-sonnet-4@2026-01-01>200000" {
		t.Errorf("ID %s", got)
	}
	same := r
	same.Source, same.Provider = "elsewhere:1", "another"
	if same.Ref() != r.Ref() {
		t.Error("the reference depends on what makes no dollars")
	}
	seen := map[string]string{r.Fingerprint(): "the row"}
	for name, change := range map[string]func(*Row){
		"input":     func(r *Row) { r.Input.Rate++ },
		"output":    func(r *Row) { r.Output = NullRate{3_000_000, true} },
		"free":      func(r *Row) { r.Output = NullRate{0, true} },
		"read":      func(r *Row) { r.CacheRead = NullRate{3_000_000, true} },
		"5 m":       func(r *Row) { r.CacheWrite5m = NullRate{3_000_000, true} },
		"1 h":       func(r *Row) { r.CacheWrite1h = NullRate{3_000_000, true} },
		"batch":     func(r *Row) { r.Batch = factorOne },
		"us":        func(r *Row) { r.USInference = factorOne },
		"fast":      func(r *Row) { r.Fast = factorOne },
		"websearch": func(r *Row) { r.WebSearch = NullRate{3_000_000, true} },
	} {
		other := r
		change(&other)
		if other.ID() != r.ID() {
			t.Errorf("%s changes the ID", name)
		}
		if twin, ok := seen[other.Fingerprint()]; ok {
			t.Errorf("%s has the fingerprint of %s", name, twin)
		}
		seen[other.Fingerprint()] = name
	}
}

// TestFingerprintIsStable: stored charges carry it, so it may not change with
// the code.
func TestFingerprintIsStable(t *testing.T) {
	t.Parallel()
	p := shippedBook(t).Price(Usage{Model: "claude-opus-4-8"})
	if want := "claude-opus-4-8#149ef565246e"; p.Row != want {
		t.Errorf("row %s, want %s", p.Row, want)
	}
	if a, b := overlay(t, "rows: [{model: m, input: 3.10}]"), overlay(t, "rows: [{model: m, input: 03.1}]"); a.RowsOf("m")[0].Ref() != b.RowsOf("m")[0].Ref() {
		t.Error("the fingerprint depends on how a decimal is written")
	}
}

// TestShippedBook holds the file to the table it was made from.
func TestShippedBook(t *testing.T) {
	t.Parallel()
	b := shippedBook(t)
	var got []string
	for _, r := range b.Rows() {
		if r.Batch.String() != "0.5" || r.WebSearch.String() != "10" {
			t.Errorf("%s: batch %s, web search %s", r.ID(), r.Batch, r.WebSearch)
		}
		line := r.ID()
		for _, v := range []string{
			r.Input.String(), r.Output.String(), r.CacheWrite5m.String(), r.CacheWrite1h.String(),
			r.CacheRead.String(), r.USInference.String(), r.Fast.String(),
		} {
			line += " " + cmp.Or(v, "-")
		}
		got = append(got, line)
	}
	want := strings.Split(strings.TrimSpace(shippedTable), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("id in out 5m 1h read us fast (-want +got):\n%s", diff)
	}
}

const shippedTable = `
claude-fable-5-2 8 40 10 16 0.2 1.1 -
claude-fable-5-1@2026-09-01 10 50 12.5 20 0.25 1.1 -
claude-fable-5 10 50 12.5 20 1 1.1 -
claude-opus-5-5@2026-09-22 4 20 5 8 0.2 1.1 2
claude-opus-5@2026-07-24 5 25 6.25 10 0.5 1.1 -
claude-opus-4-5 5 25 6.25 10 0.5 - -
claude-opus-4-6 5 25 6.25 10 0.5 1.1 6
claude-opus-4-7 5 25 6.25 10 0.5 1.1 6
claude-opus-4-8 5 25 6.25 10 0.5 1.1 2
claude-opus-4 15 75 18.75 30 1.5 - -
claude-opus-4-1 15 75 18.75 30 1.5 - -
claude-sonnet-5-5@2026-09-28 2 10 2.5 4 0.2 1.1 -
claude-sonnet-5-5@2026-10-07 2 10 2.5 4 0.1 1.1 -
claude-sonnet-5@2026-06-30 2 10 2.5 4 0.2 1.1 -
claude-sonnet-4-6 3 15 3.75 6 0.3 1.1 -
claude-sonnet-3-7 3 15 3.75 6 0.3 - -
claude-sonnet-4 3 15 3.75 6 0.3 - -
claude-sonnet-4-5 3 15 3.75 6 0.3 - -
claude-sonnet-4>200000 6 22.5 7.5 12 0.6 - -
claude-sonnet-4-5>200000 6 22.5 7.5 12 0.6 - -
claude-haiku-5-5@2026-10-07 0.1 0.5 0.125 0.2 0.01 1.1 -
claude-haiku-5-5@2026-10-07>100000 0.5 2.5 0.625 1 0.05 1.1 -
claude-haiku-4-5 1 5 1.25 2 0.1 - -
gpt-6-astra@2026-09-03 10 50 12.5 - 1 - -
gpt-6.1-sol@2026-09-29 2 10 2.5 - 0.1 - -
gpt-6.1-terra@2026-10-26 1 5 1.25 - 0.05 - -
gpt-6-luna 0.1 0.5 0.125 - 0.01 - -
gemini-3.1-pro-preview 2 12 - - 0.2 - -
gemini-3.8-flash 0.75 3.75 - - 0.075 - -
gemini-3.8-flash@2027-01-01 1.5 7.5 - - 0.15 - -
gemini-2.5-pro 1.25 10 - - - - -
gemini-2.5-pro>200000 2.5 15 - - - - -
`

func TestRowsAt(t *testing.T) {
	t.Parallel()
	b := shippedBook(t)
	ids := func(at time.Time) (list []string) {
		for _, r := range b.RowsAt(at) {
			if strings.HasPrefix(r.Model, "claude-sonnet-5-5") || strings.HasPrefix(r.Model, "claude-haiku-5-5") {
				list = append(list, r.ID())
			}
		}
		return list
	}
	if got := ids(time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)); !slices.Equal(got, []string{"claude-sonnet-5-5@2026-09-28"}) {
		t.Error(got)
	}
	want := []string{"claude-haiku-5-5@2026-10-07", "claude-haiku-5-5@2026-10-07>100000", "claude-sonnet-5-5@2026-10-07"}
	if got := ids(late); !slices.Equal(got, want) {
		t.Error(got)
	}
}

// TestProvidersOfOneModel: the provider is descriptive and may differ between
// rows without disturbing their order.
func TestProvidersOfOneModel(t *testing.T) {
	t.Parallel()
	b := overlay(t, `rows:
  - {provider: z, model: m, input: 1}
  - {provider: a, model: m, above_prompt_tokens: 10, input: 2}
  - {provider: b, model: m, valid_from: 2026-01-01, input: 3}
`)
	p := b.Price(Usage{Model: "m", WholeRequest: true, Tokens: usage.Tokens{Input: 1_000_000}})
	if p.Computed != usage.Some(2e9) {
		t.Errorf("%+v", p)
	}
	if p := b.Price(Usage{Model: "m", Time: late, Tokens: usage.Tokens{Input: 1_000_000}}); p.Computed != usage.Some(3e9) {
		t.Errorf("%+v", p)
	}
}

// FuzzLoad: whatever a file says, it is refused by name or gives a book that
// keeps the rules which the arithmetic relies on.
func FuzzLoad(f *testing.F) {
	f.Add(string(shipped))
	f.Add("rows: [{model: m, input: 3, fast: 1.5, cache_read: 0}]\naliases: {a: m}")
	f.Add("rows: [&a {model: m, input: 3}, *a]")
	f.Add("rows:\n - model: m\n   valid_from: 2026-01-01T00:00:00.5+05:00\n   input: !!float 3\n")
	base, err := readFile(shippedName, strings.NewReader(string(shipped)))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) { // Load, with the shipped file read once
		over, err := readFile("fuzz", strings.NewReader(text))
		var b *Book
		if err == nil {
			b, err = newBook(base, over)
		}
		if err != nil {
			if b != nil || !errors.Is(err, ErrRefused) || err.Error() == "" {
				t.Fatalf("book %v, error %v", b, err)
			}
			return
		}
		for _, r := range b.Rows() {
			if err := r.check(); err != nil {
				t.Errorf("loaded a row that breaks a rule: %v", err)
			}
			u := Usage{Model: r.Model, Time: late.AddDate(200, 0, 0), Speed: SpeedFast, InferenceGeo: "us", Tokens: usage.Tokens{
				Input: usage.MaxTokens, Output: usage.MaxTokens, CacheRead: usage.MaxTokens, CacheWrite: usage.MaxTokens,
			}, WebSearches: MaxWebSearches}
			if p := b.Price(u); !p.Computed.Valid || p.Computed.Nano < 0 {
				t.Errorf("%s: %+v", r.ID(), p)
			}
		}
	})
}

func FuzzParseDecimal(f *testing.F) {
	for _, s := range []string{"0", "6.25", "00.100", "1000", ".5", "5.", "1e3", "-1", "0.0000001"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := parseDecimal(s, rateDecimals)
		if err != nil {
			return
		}
		again, err := parseDecimal(decimal(n, rateDecimals), rateDecimals)
		if err != nil || again != n {
			t.Errorf("%q: %d, then %d, %v", s, n, again, err)
		}
	})
}
