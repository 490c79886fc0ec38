package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/store/engine"
)

// service is the built program, serving on the bench's engines.
type service struct {
	cmd *exec.Cmd
	api string
}

func startService(ctx context.Context, o options, dir string, e *engine.Engines) (*service, error) {
	secrets := filepath.Join(dir, "engines", "secrets")
	ch, pg := e.ClickHouse(), e.Postgres()
	cmd := exec.CommandContext(ctx, o.binary, "serve", "--data-dir", filepath.Join(dir, "service"),
		"--listen", "127.0.0.1:0", "--push-listen", "127.0.0.1:0",
		"--clickhouse", ch.Addr, "--clickhouse-user", ch.User, "--clickhouse-password-file", filepath.Join(secrets, "clickhouse"),
		"--postgres", "postgres://"+pg.User+"@"+pg.Addr+"/"+pg.Database, "--postgres-password-file", filepath.Join(secrets, "postgres"))
	logs, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(logs)
	for lines.Scan() {
		var l struct{ Msg, API string }
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Msg == "serving" {
			go func() { _, _ = io.Copy(os.Stderr, logs) }()
			return &service{cmd, "http://" + l.API}, nil
		}
		fmt.Fprintln(os.Stderr, lines.Text())
	}
	return nil, errors.Join(errors.New("it ended before it served"), cmd.Wait())
}

func (s *service) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return s.cmd.Wait()
}

// ingest posts calls from another process and waits until a query shows them
// all. It returns the rate until then, and until the last acknowledgement.
func (s *service) ingest(ctx context.Context, calls int) (visible, acknowledged float64, err error) {
	load, err := loadCommand(ctx, s.api, calls)
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
	for pending := true; pending; {
		time.Sleep(20 * time.Millisecond)
		if pending, err = s.pending(ctx); err != nil {
			return 0, 0, err
		}
	}
	spend, err := client.New(s.api).Spend(ctx, url.Values{"feed": {"call"}})
	if err != nil {
		return 0, 0, err
	}
	if n := spend.Total.Requests; n == nil || *n != uint64(calls) {
		return 0, 0, fmt.Errorf("the ledger does not show %d calls: %+v", calls, spend.Total)
	}
	return float64(calls) / time.Since(start).Seconds(), acknowledged, nil
}

// pending reports whether the journal holds records that are not written yet.
func (s *service) pending(ctx context.Context) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.api+"/metrics", nil)
	if err != nil {
		return false, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), "tatara_ledger_journal_pending_records "); ok {
			return v != "0", nil
		}
	}
	return false, errors.Join(errors.New("no metric of pending records"), lines.Err())
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
