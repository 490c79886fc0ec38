// Package service starts the engines and the built program for benchmarks.
package service

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/szymonrychu/tatara-ledger/store/engine"
)

// Setting is a throw-away folder with engines, as whose client the program can
// be started, again and again.
type Setting struct {
	Engines *engine.Engines
	binary  string
	dir     string
}

// Setup starts the engines. close ends them and removes the folder.
func Setup(ctx context.Context, binary string) (_ *Setting, closeAll func() error, err error) {
	dir, err := os.MkdirTemp("", "tatara-ledger-bench")
	if err != nil {
		return nil, nil, err
	}
	remove := func() error { return os.RemoveAll(dir) }
	// Engines of root run as another user, who must reach the folder.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	cfg := engine.DefaultConfig()
	cfg.DataDir, cfg.ClickHouse.Port = filepath.Join(dir, "engines"), 0
	if cfg.Executable, err = filepath.Abs(binary); err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	engines, err := engine.Start(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return &Setting{engines, cfg.Executable, dir}, func() error { return errors.Join(engines.Close(), remove()) }, nil
}

// Service is the program, serving.
type Service struct {
	Addr string // host:port of the API
	Push string // host:port that wrappers push to
	cmd  *exec.Cmd
}

// Dir is the folder, for what else a benchmark starts.
func (s *Setting) Dir() string { return s.dir }

// Start starts the program, with more flags if there are any, and waits until it
// is ready. Its log goes to a file, which costs it what a log costs and the bench
// nothing.
func (s *Setting) Start(ctx context.Context, flags ...string) (_ *Service, err error) {
	log, err := os.CreateTemp(s.dir, "serve-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	secrets := filepath.Join(s.dir, "engines", "secrets")
	ch, pg := s.Engines.ClickHouse(), s.Engines.Postgres()
	cmd := exec.CommandContext(ctx, s.binary, "serve", "--data-dir", filepath.Join(s.dir, "service"),
		"--listen", "127.0.0.1:0", "--push-listen", "127.0.0.1:0",
		"--clickhouse", ch.Addr, "--clickhouse-user", ch.User, "--clickhouse-password-file", filepath.Join(secrets, "clickhouse"),
		"--postgres", "postgres://"+pg.User+"@"+pg.Addr+"/"+pg.Database, "--postgres-password-file", filepath.Join(secrets, "postgres"))
	cmd.Args = append(cmd.Args, flags...)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	out := &Service{cmd: cmd}
	if err := out.await(ctx, log.Name()); err != nil {
		text, _ := os.ReadFile(log.Name()) // what there is of it
		return nil, errors.Join(fmt.Errorf("%w; its log:\n%s", err, text), out.Stop())
	}
	return out, nil
}

const startPatience = time.Minute

func (s *Service) await(ctx context.Context, log string) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for ctx.Err() == nil {
		if s.Addr == "" {
			s.Addr, s.Push = servingAt(log)
		} else if s.ready(ctx) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.New("the service did not become ready")
}

// servingAt is the addresses that the log names, or "".
func servingAt(log string) (api, push string) {
	file, err := os.Open(log)
	if err != nil {
		return "", ""
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var l struct{ Msg, API, Push string }
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Msg == "serving" {
			return l.API, l.Push
		}
	}
	return "", ""
}

func (s *Service) ready(ctx context.Context) bool {
	resp, err := get(ctx, "http://"+s.Addr+"/readyz")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Stop ends the program in order.
func (s *Service) Stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return s.cmd.Wait()
}

// Metric reads one metric without labels.
func (s *Service) Metric(ctx context.Context, name string) (float64, error) {
	resp, err := get(ctx, "http://"+s.Addr+"/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(v, 64)
		}
	}
	return 0, errors.Join(fmt.Errorf("no metric %s", name), lines.Err())
}

func get(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}
