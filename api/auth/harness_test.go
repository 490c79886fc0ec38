package auth

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/szymonrychu/tatara-ledger/api/auth/authtest"
	"github.com/szymonrychu/tatara-ledger/api/envelope"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is the service's; that of the provider goes on as it does.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// fixture is an authenticator in front of a handler that says who called.
type fixture struct {
	*Authenticator
	t     *testing.T
	clock *clock
	log   *syncBuffer
	http  http.Handler
}

func newFixture(t *testing.T, cfg Config) *fixture {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, clock: &clock{}, log: &syncBuffer{}}
	var err error
	f.Authenticator, err = newAuthenticator(cfg, slog.New(slog.NewJSONHandler(f.log, nil)), prometheus.NewPedanticRegistry(), f.clock.now)
	if err != nil {
		t.Fatal(err)
	}
	f.http = f.Authenticate(f.Limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		envelope.JSON(w, http.StatusOK, From(r.Context()))
	})))
	return f
}

func startIssuer(t *testing.T) *authtest.Issuer {
	t.Helper()
	i := authtest.New()
	t.Cleanup(i.Close)
	return i
}

func oidcConfig(i *authtest.Issuer) Config {
	cfg := DefaultConfig()
	cfg.Issuer = i.URL
	return cfg
}

type answer struct {
	status    int
	id        Identity
	err       envelope.Error
	challenge string
	retry     string
}

func (f *fixture) get(header ...string) answer {
	f.t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for _, h := range header {
		r.Header.Add("Authorization", h)
	}
	return f.do(f.http, r)
}

func (f *fixture) do(h http.Handler, r *http.Request) answer {
	f.t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, _ := io.ReadAll(w.Body)
	got := answer{status: w.Code, challenge: w.Header().Get("WWW-Authenticate"), retry: w.Header().Get("Retry-After")}
	into := any(&got.err)
	if w.Code == http.StatusOK {
		into = &got.id
	}
	if err := json.Unmarshal(body, into); err != nil {
		f.t.Fatalf("answer %q: %v", body, err)
	}
	for _, secret := range r.Header.Values("Authorization") {
		_, secret, _ = strings.Cut(secret, " ")
		for _, part := range strings.Split(secret, ".") {
			if len(part) > 10 && (bytes.Contains(body, []byte(part)) || strings.Contains(got.challenge, part) || strings.Contains(f.log.String(), part)) {
				f.t.Errorf("the token %s shows in the answer %s, the challenge %s or the log %s", secret, body, got.challenge, f.log)
			}
		}
	}
	return got
}

// want checks a status, and that the last request counted as result.
func (f *fixture) want(got answer, status int, result string, count float64) {
	f.t.Helper()
	if got.status != status {
		f.t.Errorf("status = %d %+v, want %d", got.status, got.err, status)
	}
	if n := f.results(result); n != count {
		f.t.Errorf("requests with result %s = %v, want %v", result, n, count)
	}
	if status == http.StatusUnauthorized && !strings.HasPrefix(got.challenge, `Bearer realm="tatara-ledger"`) {
		f.t.Errorf("WWW-Authenticate = %q", got.challenge)
	}
	if status != http.StatusOK && (got.err.Message == "" || got.err.Hint == "") {
		f.t.Errorf("the answer %+v lacks what is wrong or the remedy", got.err)
	}
}

func (f *fixture) results(result string) float64 {
	return testutil.ToFloat64(f.metrics.requests.WithLabelValues(result))
}
