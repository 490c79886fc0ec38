package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/szymonrychu/tatara-ledger/simulate"
)

// callsAtOnce is how many calls one request carries.
const callsAtOnce = 20_000

// calm is what a task spends that is far from its ceilings, and runaway what
// takes one from nothing over the shipped ceiling of 25 $ at once.
const (
	calm    = 200
	runaway = 1_100_000
)

// taskName names the tasks, with a part that differs early: their names are
// hashed and sorted.
func taskName(i int) string { return fmt.Sprintf("acme/repo-%d#%d", i%50, i) }

// call is a call of a task, now, that used so many output tokens.
func call(b []byte, id, task string, output int) []byte {
	return fmt.Appendf(b, `{"id":%q,"ts":%q,"project":"demo","repo":"acme/widgets","kind":"implement","task":%q,"run":%q,"model":"claude-opus-4-8",`+
		`"input_tokens":1000,"output_tokens":%d,"cache_read_tokens":20000,"duration_ms":2000}`+"\n",
		id, time.Now().UTC().Format(time.RFC3339Nano), task, task+"-0", output)
}

// load makes the tasks live, by one call of each, and lets pods push, whose turns
// are looked for with every answer; and waits until their totals are in memory.
func (b *bench) load(ctx context.Context) error {
	begun := time.Now()
	cfg := simulate.DefaultConfig()
	cfg.PushURLs, cfg.Pods, cfg.Interval, cfg.UntilAcknowledged = []string{"http://" + b.service.Push + "/internal/metrics/push"}, b.pods, 0, true
	fleet, err := simulate.New(cfg)
	if err != nil {
		return err
	}
	if _, _, err := fleet.Run(ctx); err != nil {
		return err
	}
	for from := 0; from < b.tasks; from += callsAtOnce {
		var body []byte
		for i := from; i < min(from+callsAtOnce, b.tasks); i++ {
			body = call(body, fmt.Sprint("calm-", i), taskName(i), calm)
		}
		if err := b.post(ctx, body); err != nil {
			return err
		}
	}
	fmt.Printf("load_s %.1f s\n", time.Since(begun).Seconds())
	for n := 0.0; n < float64(b.tasks); {
		if time.Since(begun) > 5*time.Minute {
			return fmt.Errorf("%v of %d tasks are in memory after 5 min", n, b.tasks)
		}
		time.Sleep(100 * time.Millisecond)
		if n, err = b.service.Metric(ctx, "tatara_ledger_tasks"); err != nil {
			return err
		}
	}
	fmt.Printf("loaded_s %.1f s\n", time.Since(begun).Seconds())
	return nil
}

// post sends calls, and returns when they are acknowledged.
func (b *bench) post(ctx context.Context, body []byte) (err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.service.Addr+"/v1/calls", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	return send(req, "posting calls")
}

func send(req *http.Request, what string) error { return sendBy(http.DefaultClient, req, what) }

// sendBy sends a request and reads the answer, which must be a success.
func sendBy(client *http.Client, req *http.Request, what string) (err error) {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s: %s: %.300s", what, resp.Status, text)
	}
	return nil
}
