package deliver

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// serve is a server in the place of an Alertmanager, for what a real one does
// not do when asked.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func TestAnswersThatAreFailures(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"401":           func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"404":           http.NotFound,
		"500":           func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"a login page":  func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>sign in</html>") }, //nolint:errcheck // it fails the test by itself
		"400 of a page": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "plain HTTP to an HTTPS port", 400) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				http.Redirect(w, r, r.URL.Path, http.StatusMovedPermanently)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var good atomic.Bool
			base := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if !good.Load() {
					answer(w, r)
				}
			})
			s := start(t, configOf(base))
			s.Send(firing(1))
			receiver := receiverOf(t, base)
			eventually(t, "a second attempt", func() bool { return value(t, s.reg, "delivery_failures_total", receiver) >= 2 })
			if !s.Failing() {
				t.Error("not failing")
			}
			good.Store(true)
			<-s.Recovered()
			if v := value(t, s.reg, "delivered_total", receiver); v != 1 {
				t.Errorf("%v delivered, want the one that waited", v)
			}
		})
	}
}

// TestEndlessAnswer is of a server whose answer would fill the memory.
func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	cut := make(chan bool, 100)
	base := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, err := io.WriteString(w, `"`)
		for written, part := 0, strings.Repeat("x", 1<<20); err == nil && written < 256<<20; written += len(part) {
			_, err = io.WriteString(w, part)
		}
		cut <- err != nil
	})
	s := start(t, configOf(base))
	s.Send(firing(1))
	if !<-cut {
		t.Error("the whole answer was read")
	}
	eventually(t, "the failure", s.Failing)
}

func TestFullQueueDropsTheOldest(t *testing.T) {
	t.Parallel()
	var good atomic.Bool
	var got atomic.Value
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !good.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var alerts []Alert
		if err := json.NewDecoder(r.Body).Decode(&alerts); err != nil {
			t.Errorf("reading a request: %v", err)
		}
		got.Store(alerts)
	})
	cfg := configOf(base)
	cfg.Queue = 3
	s := start(t, cfg)
	receiver := receiverOf(t, base)
	s.Send(firing(1), firing(2), firing(3), firing(4), firing(5))
	s.Send(firing(4)) // has its place already
	eventually(t, "a failure", s.Failing)
	dropped := func() float64 { return value(t, s.reg, "dropped_total", "reason="+reasonFull, receiver) }
	eventually(t, "the drops", func() bool { return dropped() == 2 })
	good.Store(true)
	<-s.Recovered()
	var order []string
	for _, a := range got.Load().([]Alert) {
		order = append(order, a.Labels["task"])
	}
	slices.Sort(order)
	if strings.Join(order, " ") != "3 4 5" {
		t.Errorf("delivered %v, want the newest three", order)
	}
	if v := value(t, s.reg, "queue_length", receiver); v != 0 || dropped() != 2 {
		t.Errorf("%v wait, %v dropped", v, dropped())
	}
	if c := strings.Count(s.log.String(), "the oldest are dropped"); c != 1 {
		t.Errorf("a full queue was logged %d times", c)
	}
}

func TestStopWithAnAlertmanagerThatHangs(t *testing.T) {
	t.Parallel()
	release, reached := make(chan struct{}), make(chan struct{}, 1)
	base := serve(t, func(http.ResponseWriter, *http.Request) { reached <- struct{}{}; <-release })
	t.Cleanup(func() { close(release) }) // before the server closes
	cfg := configOf(base)
	cfg.Timeout = maxTimeout
	s := start(t, cfg)
	s.Send(firing(1))
	<-reached
	s.Send(firing(1), firing(2))
	begin := time.Now()
	s.stop()
	// Not a measure: without the bound it is the minute of the request.
	if took := time.Since(begin); took > maxTimeout/2 {
		t.Errorf("the stop took %s", took)
	}
	if v := value(t, s.reg, "dropped_total", "reason="+reasonStopped, receiverOf(t, base)); v != 2 {
		t.Errorf("%v counted as left at the stop, want 2", v)
	}
}

// TestNoSecretIsShown looks for passwords in everything that is printed. It
// replaces stderr, so it is not parallel.
func TestNoSecretIsShown(t *testing.T) {
	const password, token, user = "hunter2-secret", "token-secret", "ledger"
	t.Setenv("DEBUG", "1") // go-openapi prints requests by it
	printed, err := os.Create(filepath.Join(t.TempDir(), "printed"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	stdout, stderr := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	os.Stdout, os.Stderr = printed, printed

	var basic, bearer atomic.Bool
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); ok && u == user && p == password && r.URL.Path == "/am/api/v2/alerts" {
			basic.Store(true)
		}
		if r.Header.Get("Authorization") == "Bearer "+token && r.URL.Path == "/file/api/v2/alerts" {
			bearer.Store(true)
		}
		w.WriteHeader(http.StatusForbidden)
	})
	dir := t.TempDir()
	file := filepath.Join(dir, "alertmanagers.yaml")
	host := strings.TrimPrefix(base, "http://")
	write(t, file, "alertmanagers:\n- path_prefix: /file\n  static_configs: [{targets: ['"+host+"']}]\n  authorization: {credentials_file: token}\n")
	write(t, filepath.Join(dir, "token"), token+"\n")
	write(t, filepath.Join(dir, "hook"), secretOf(1))

	away := strings.TrimPrefix(nowhere(t), "http://")
	cfg := configOf("http://" + user + ":" + password + "@" + host + "/am/,http://" + user + ":" + password + "@" + away)
	cfg.AlertmanagerConfig = file
	cfg.Webhook = "http://" + user + ":" + password + "@" + away + "/" + token
	cfg.WebhookSecretFile = filepath.Join(dir, "hook")
	s := start(t, cfg)
	s.Send(firing(1))
	eventually(t, "requests with each way to sign in", func() bool { return basic.Load() && bearer.Load() })
	for _, name := range []string{host + "/am", host + "/file", away} {
		eventually(t, "a failure of "+name, func() bool { return value(t, s.reg, "delivery_failures_total", "receiver="+name) > 0 })
	}
	err = s.Webhook().Post(t.Context(), Transition{ID: "1", Alert: firing(1)})
	if err == nil {
		t.Error("the webhook is away, and took a transition")
	}
	s.stop()
	shown := s.log.String() + metricsText(t, s.reg) + err.Error()
	onScreen, err := os.ReadFile(printed.Name())
	if err != nil {
		t.Fatal(err)
	}
	if len(onScreen) > 0 {
		t.Errorf("printed past the log:\n%s", onScreen)
	}
	if !strings.Contains(shown, away) {
		t.Errorf("the test looks at the wrong text:\n%s", shown)
	}
	for _, secret := range []string{password, token, user + ":", "bGVkZ2Vy", strings.TrimPrefix(secretOf(1), secretPrefix)} {
		if strings.Contains(shown, secret) {
			t.Errorf("%q is shown:\n%s", secret, shown)
		}
	}
}

func metricsText(t *testing.T, reg prometheus.Gatherer) string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestWithoutReceivers(t *testing.T) {
	t.Parallel()
	s := start(t, DefaultConfig())
	s.Send(firing(1))
	if s.Failing() || s.Webhook() != nil {
		t.Error("nothing is configured, and something is there")
	}
	s.stop()
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cfg  func(dir string) Config
		want string
	}{
		"the same Alertmanager twice": {
			func(string) Config { return configOf("http://am,http://am:80/") },
			"name am:80 twice",
		},
		"a file that is not there": {
			func(dir string) Config { c := DefaultConfig(); c.AlertmanagerConfig = dir + "/none"; return c },
			"--alertmanager-config",
		},
		"an invalid configuration": {func(string) Config { return configOf("am:9093") }, "http://am:9093"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New(tt.cfg(t.TempDir()), slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
