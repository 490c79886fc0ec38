package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/simulate"
)

// call is the body of one posted call.
type call struct {
	ID           string    `json:"id,omitempty"`
	Time         time.Time `json:"ts"`
	Project      string    `json:"project,omitempty"`
	Repo         string    `json:"repo,omitempty"`
	Kind         string    `json:"kind,omitempty"`
	Task         string    `json:"task,omitempty"`
	Run          string    `json:"run,omitempty"`
	Session      string    `json:"session,omitempty"`
	Model        string    `json:"model,omitempty"`
	Agent        string    `json:"agent,omitempty"`
	Input        uint64    `json:"input_tokens"`
	Output       uint64    `json:"output_tokens"`
	CacheRead    uint64    `json:"cache_read_tokens"`
	CacheWrite5m uint64    `json:"cache_write_5m_tokens"`
	CacheWrite1h uint64    `json:"cache_write_1h_tokens"`
	CostUSD      string    `json:"cost_usd,omitempty"`
}

func (c *call) key() simulate.Key {
	return simulate.Key{Task: c.Task, Project: c.Project, Repo: c.Repo, Kind: c.Kind, Model: c.Model}
}

// sum is what the call must count for: the computed cost, else the reported.
func (c *call) sum(t *testing.T, book *pricing.Book) simulate.Sum {
	t.Helper()
	tokens := usage.Tokens{
		Input: c.Input, Output: c.Output, CacheRead: c.CacheRead,
		CacheWrite: c.CacheWrite5m + c.CacheWrite1h, CacheWrite5m: c.CacheWrite5m, CacheWrite1h: c.CacheWrite1h,
	}
	p := book.Price(pricing.Usage{Model: c.Model, Time: c.Time, Tokens: tokens, WholeRequest: true})
	cost := p.Computed
	if !cost.Valid && c.CostUSD != "" {
		n, err := usage.ParseDollars(c.CostUSD)
		if err != nil {
			t.Error(err)
		}
		cost = usage.Some(n)
	}
	return simulate.Sum{
		Input: tokens.Input, Output: tokens.Output, CacheRead: tokens.CacheRead, CacheWrite: tokens.CacheWrite,
		Cost: simulate.Cost(cost), UnpricedTokens: p.UnpricedTokens,
	}
}

// prices is the shipped book.
func prices(t *testing.T) *pricing.Book {
	t.Helper()
	book, err := pricing.Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// callMaker makes calls of the last three days, so that buckets are closed and
// made dirty again. Models with a tier, without a price, and with a reported
// cost alone are among them.
type callMaker struct {
	rng  *rand.Rand
	name string
	now  time.Time
	n    int
}

func newCallMaker(name string, seed uint64) *callMaker {
	return &callMaker{rng: rand.New(rand.NewPCG(seed, 0xca11)), name: name, now: time.Now().UTC().Truncate(time.Millisecond)}
}

func (m *callMaker) next() call {
	pick := func(of ...string) string { return of[m.rng.IntN(len(of))] }
	m.n++
	c := call{
		ID:      m.name + "-" + strconv.Itoa(m.n),
		Time:    m.now.Add(-time.Duration(m.rng.Int64N(int64(72 * time.Hour)))).Truncate(time.Millisecond),
		Project: pick("calls", "calls-2"), Repo: pick("widgets", ""), Kind: pick("posted", "curl"),
		Task:  m.name + "-task-" + strconv.Itoa(m.rng.IntN(20)),
		Model: pick("claude-opus-4-8", "claude-sonnet-4-5", "claude-haiku-4-5", "house-llm"),
		Input: m.rng.Uint64N(300_000), Output: m.rng.Uint64N(9000), CacheRead: m.rng.Uint64N(100_000),
		CacheWrite5m: m.rng.Uint64N(30_000), CacheWrite1h: m.rng.Uint64N(3000),
	}
	if c.Model == "house-llm" && m.rng.IntN(2) == 0 {
		c.CostUSD = fmt.Sprintf("%d.%09d", m.rng.IntN(3), m.rng.IntN(1_000_000_000))
	}
	return c
}

func (m *callMaker) batch(n int) []call {
	out := make([]call, n)
	for i := range out {
		out[i] = m.next()
	}
	return out
}

func ndjson(t *testing.T, calls []call) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for i := range calls {
		if err := enc.Encode(&calls[i]); err != nil {
			t.Error(err)
		}
	}
	return b.Bytes()
}

// reply is what a request was answered with; status 0 is none.
type reply struct {
	status     int
	retryAfter string
	body       string
}

// send sends a request with a JSON body once.
func send(ctx context.Context, method, url string, body []byte) reply {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return reply{body: err.Error()}
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{body: err.Error()}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{body: err.Error()}
	}
	return reply{resp.StatusCode, resp.Header.Get("Retry-After"), string(text)}
}

// post posts calls, to each service in turn, until they are acknowledged.
func post(t *testing.T, calls []call, services ...*service) {
	t.Helper()
	body, attempt := ndjson(t, calls), 0
	var last reply
	until(t, "calls are acknowledged", func() bool {
		s := services[attempt%len(services)]
		attempt++
		last = send(t.Context(), http.MethodPost, "http://"+s.api+"/v1/calls", body)
		if last.status >= 400 && last.status < 500 {
			t.Fatalf("calls were refused: %+v", last)
		}
		return last.status == http.StatusOK
	})
	var answer struct {
		Accepted int `json:"accepted"`
	}
	if err := json.Unmarshal([]byte(last.body), &answer); err != nil || answer.Accepted != len(calls) {
		t.Fatalf("%d calls: %+v", len(calls), last)
	}
}

// link links a run.
func link(t *testing.T, s *service, run string, labels map[string]string) {
	t.Helper()
	body, err := json.Marshal(labels)
	if err != nil {
		t.Fatal(err)
	}
	if got := send(t.Context(), http.MethodPut, "http://"+s.api+"/v1/runs/"+run, body); got.status != http.StatusOK {
		t.Fatalf("linking %s: %+v", run, got)
	}
}
