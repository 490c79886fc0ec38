package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"
)

// parentEnv makes the test binary a parent of engines: its value is the Config.
const parentEnv = "ENGINE_TEST_PARENT"

// The test binary plays three roles: the tests, a parent that can be killed, and
// the ClickHouse child.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "engines" && os.Args[2] == "clickhouse" {
		exit(clickHouseChild(os.Args[3:]))
	}
	if config := os.Getenv(parentEnv); config != "" {
		exit(fakeParent(config))
	}
	goleak.VerifyTestMain(m)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// fakeLibrary is the name of a libchdb that makes the child a fake. It is much
// quicker than the real one, which has a test of its own.
const fakeLibrary = "fake.so"

func clickHouseChild(args []string) error {
	var c ClickHouseChild
	fs := pflag.NewFlagSet("clickhouse", pflag.ContinueOnError)
	c.Flags(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	if filepath.Base(c.Library) == "libchdb.so" {
		return realClickHouse(c)
	}
	return fakeClickHouse(c)
}

func realClickHouse(c ClickHouseChild) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return c.Serve(ctx, nil, slog.New(slog.NewJSONHandler(os.Stderr, nil)))
}

// fakeClickHouse speaks as much HTTP as the lifecycle needs. Rows are lines in a
// file of the data folder.
func fakeClickHouse(c ClickHouseChild) error {
	if strings.Contains(c.Library, "broken") {
		return fmt.Errorf("loading %s: no such engine", c.Library)
	}
	users := make(map[string]string)
	for user, file := range map[string]string{c.User: c.PasswordFile, c.GrafanaUser: c.GrafanaPasswordFile} {
		password, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		users[user] = strings.TrimSpace(string(password))
	}
	if _, err := os.Stat(c.Library); err != nil {
		return err
	}
	rows := filepath.Join(c.Path, "rows")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) {
		if !strings.Contains(c.Library, "silent") {
			_, _ = io.WriteString(w, "Ok.\n")
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if want, ok := users[user]; !ok || want != password {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(r.Body)
		f, err := os.OpenFile(rows, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.Write(append(body, '\n'))
			_ = f.Close()
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server := &http.Server{Addr: c.Listen, Handler: mux, ReadHeaderTimeout: time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	slog.New(slog.NewJSONHandler(os.Stderr, nil)).Info("serving", "listen", c.Listen)
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// report is what a parent prints once its engines are ready.
type report struct {
	DSN        string
	ClickHouse string
	PIDs       map[string]int
}

func fakeParent(config string) error {
	var cfg Config
	if err := json.Unmarshal([]byte(config), &cfg); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	engines, err := Start(ctx, cfg, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	err = json.NewEncoder(os.Stdout).Encode(report{
		DSN:        engines.Postgres().DSN(),
		ClickHouse: engines.ClickHouse().Addr,
		PIDs:       engines.pids(),
	})
	if err != nil {
		return err
	}
	return engines.Run(ctx)
}

func (e *Engines) pids() map[string]int {
	pids := make(map[string]int)
	for _, c := range e.children {
		pids[c.name] = c.current().pid
	}
	return pids
}
