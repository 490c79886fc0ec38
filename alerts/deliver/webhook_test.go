package deliver

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func keyOf(n byte) []byte { return []byte(strings.Repeat(string('a'+rune(n)), 32)) }

// secretOf is a file's line.
func secretOf(n byte) string { return secretPrefix + base64.StdEncoding.EncodeToString(keyOf(n)) }

// expected is the signature, computed from the specification's words.
func expected(key []byte, h http.Header, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(h.Get("webhook-id") + "." + h.Get("webhook-timestamp") + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

type post struct {
	header http.Header
	body   []byte
}

func hook(t *testing.T, h http.HandlerFunc) (*Webhook, *prometheus.Registry, chan post) {
	t.Helper()
	posts := make(chan post, 10)
	cfg := DefaultConfig()
	cfg.Webhook = serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading a post: %v", err)
		}
		posts <- post{r.Header, body}
		h(w, r)
	}) + "/hook?token=secret"
	cfg.WebhookSecretFile = filepath.Join(t.TempDir(), "secret")
	write(t, cfg.WebhookSecretFile, secretOf(1)+"\n"+secretOf(2)+"\n")
	cfg.Timeout = 5 * time.Second
	reg := prometheus.NewRegistry()
	s, err := New(cfg, slog.New(slog.DiscardHandler), reg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Webhook().http.CloseIdleConnections)
	return s.Webhook(), reg, posts
}

func TestPostIsSigned(t *testing.T) {
	t.Parallel()
	w, reg, posts := hook(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	if v := value(t, reg, "delivery_failures_total", "receiver=webhook"); v != 0 {
		t.Errorf("failures are %v at the start, want 0", v)
	}
	tr := Transition{ID: "0198-1", Alert: firing(1)}
	var got [2]post
	for i := range got {
		// A repetition may come much later, and is the same.
		tr.Alert.EndsAt = time.Now().Add(-time.Hour)
		if err := w.Post(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		got[i] = <-posts
	}
	for _, p := range got {
		if want := expected(keyOf(1), p.header, p.body) + " " + expected(keyOf(2), p.header, p.body); p.header.Get("webhook-signature") != want {
			t.Errorf("signature %s, want %s", p.header.Get("webhook-signature"), want)
		}
		if p.header.Get("webhook-id") != tr.ID || p.header.Get("Content-Type") != "application/json" {
			t.Errorf("headers %v", p.header)
		}
	}
	if diff := cmp.Diff(string(got[0].body), string(got[1].body)); diff != "" {
		t.Errorf("a repetition differs:\n%s", diff)
	}
	const want = `{"version":"4","groupKey":"{}:{alertname=\"TaskCostCeiling\", task=\"1\", threshold=\"80\"}","truncatedAlerts":0,` +
		`"status":"firing","receiver":"tatara-ledger",` +
		`"groupLabels":{"alertname":"TaskCostCeiling","task":"1","threshold":"80"},` +
		`"commonLabels":{"alertname":"TaskCostCeiling","task":"1","threshold":"80"},` +
		`"commonAnnotations":{"summary":"Task 1 cost 8 of 10 dollars"},"externalURL":"",` +
		`"alerts":[{"status":"firing","labels":{"alertname":"TaskCostCeiling","task":"1","threshold":"80"},` +
		`"annotations":{"summary":"Task 1 cost 8 of 10 dollars"},"startsAt":"2026-05-04T03:02:01.123Z","endsAt":"0001-01-01T00:00:00Z",` +
		`"generatorURL":"https://ledger.example/v1/tasks/1","fingerprint":"`
	if !strings.HasPrefix(string(got[0].body), want) {
		t.Errorf("body %s\nwant %s…", got[0].body, want)
	}
	if v := value(t, reg, "delivered_total", "receiver=webhook"); v != 2 {
		t.Errorf("%v delivered, want 2", v)
	}

	end := Transition{ID: "0198-2", Resolved: true, Alert: Alert{Labels: firing(1).Labels, StartsAt: began, EndsAt: began.Add(time.Hour)}}
	if err := w.Post(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	body := string((<-posts).body)
	for _, part := range []string{`"status":"resolved","receiver"`, `"endsAt":"2026-05-04T04:02:01.123Z"`, `"annotations":{}`} {
		if !strings.Contains(body, part) {
			t.Errorf("no %s in %s", part, body)
		}
	}
}

func TestPostFails(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"500":        {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "answered 500"},
		"400":        {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }, "answered 400"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }, "answered 302"},
		"no answer":  {func(http.ResponseWriter, *http.Request) { <-release }, context.DeadlineExceeded.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, reg, _ := hook(t, tt.answer)
			if name == "no answer" {
				w.timeout = 50 * time.Millisecond
				t.Cleanup(func() { close(release) })
			}
			err := w.Post(t.Context(), Transition{ID: "1", Alert: firing(1)})
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "token") {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if name == "no answer" && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v is not the deadline", err)
			}
			if v := value(t, reg, "delivery_failures_total", "receiver=webhook"); v != 1 {
				t.Errorf("%v failures, want 1", v)
			}
			if v := value(t, reg, "delivered_total", "receiver=webhook"); v != 0 {
				t.Errorf("%v delivered", v)
			}
		})
	}
}

func TestPostNeedsAnID(t *testing.T) {
	t.Parallel()
	w, _, posts := hook(t, func(http.ResponseWriter, *http.Request) {})
	if err := w.Post(t.Context(), Transition{Alert: firing(1)}); err == nil || len(posts) > 0 {
		t.Errorf("got %v, and %d posts", err, len(posts))
	}
}

func TestSecretsThatAreNone(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"empty":          "",
		"no prefix":      strings.TrimPrefix(secretOf(1), secretPrefix),
		"no base64":      secretPrefix + "hunter2!",
		"too short":      secretPrefix + base64.StdEncoding.EncodeToString([]byte("hunter2")),
		"too long":       secretPrefix + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 65))),
		"the second one": secretOf(1) + "\nhunter2",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := DefaultConfig()
			cfg.Webhook, cfg.WebhookSecretFile = "http://hook", filepath.Join(t.TempDir(), "secret")
			write(t, cfg.WebhookSecretFile, content)
			_, err := New(cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			if err == nil || !strings.HasPrefix(err.Error(), "--alert-webhook-secret-file "+cfg.WebhookSecretFile+": line ") {
				t.Errorf("got %v", err)
			} else if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}
