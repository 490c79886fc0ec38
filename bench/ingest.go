package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/bench/service"
)

// ingest posts calls from another process and waits until a query shows them
// all. It returns the rate until then, and until the last acknowledgement.
func ingest(ctx context.Context, s *service.Service, calls int) (visible, acknowledged float64, err error) {
	base := "http://" + s.Addr
	load, err := loadCommand(ctx, base, calls)
	if err != nil {
		return 0, 0, err
	}
	out, err := load.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	if err := load.Start(); err != nil {
		return 0, 0, err
	}
	// The generator says when its bodies are ready: making them is not ingest.
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return 0, 0, fmt.Errorf("waiting for the load generator: %w", err)
	}
	start := time.Now()
	if err := load.Wait(); err != nil {
		return 0, 0, err
	}
	acknowledged = float64(calls) / time.Since(start).Seconds()
	// Asking the ledger itself again and again would be measured too: it is
	// asked once, when the journal has nothing left to write.
	for pending := 1.0; pending > 0; {
		time.Sleep(20 * time.Millisecond)
		if pending, err = s.Metric(ctx, "tatara_ledger_journal_pending_records"); err != nil {
			return 0, 0, err
		}
	}
	spend, err := client.New(base).Spend(ctx, url.Values{"feed": {"call"}})
	if err != nil {
		return 0, 0, err
	}
	if n := spend.Total.Requests; n == nil || *n != uint64(calls) {
		return 0, 0, fmt.Errorf("the ledger does not show %d calls: %+v", calls, spend.Total)
	}
	return float64(calls) / time.Since(start).Seconds(), acknowledged, nil
}

const (
	loadBody        = 5000 // calls in one request
	loadConnections = 4
)

// post is the load generator: it makes all bodies, says so, and posts them.
func post(ctx context.Context, base string, calls int) error {
	var bodies [][]byte
	f := newFleet(42, time.Now().UTC().Add(-time.Hour).Truncate(time.Hour))
	for done := 0; done < calls; done += loadBody {
		var b []byte
		for range min(loadBody, calls-done) {
			e := f.next()
			b = line(b, &e)
		}
		bodies = append(bodies, b)
	}
	fmt.Println("ready")
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(loadConnections)
	for _, b := range bodies {
		g.Go(func() error { return postBody(gctx, base, b) })
	}
	return g.Wait()
}

func postBody(ctx context.Context, base string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/calls", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("posting calls: %s: %s", resp.Status, answer)
	}
	return nil
}
