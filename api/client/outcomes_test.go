package client_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// TestPostedFacts: outcomes and annotations are one request, which may be
// repeated, and its answer is read whole.
func TestPostedFacts(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 123e6, time.UTC)
	for name, tt := range map[string]struct {
		call      func(context.Context, *client.Client, bool) (*wire.Posted, error)
		uri, body string
	}{
		"outcomes": {
			call: func(ctx context.Context, c *client.Client, none bool) (*wire.Posted, error) {
				if none {
					return c.PostOutcomes(ctx)
				}
				return c.PostOutcomes(ctx, client.Outcome{ID: "i", At: at, Task: "<t>", Outcome: "delivered", Detail: "d"}, client.Outcome{At: at, Task: "t", Outcome: "churned"})
			},
			uri: "/v1/outcomes",
			body: `[{"id":"i","ts":"2026-11-30T12:00:00.123Z","task":"<t>","outcome":"delivered","detail":"d"},` +
				`{"ts":"2026-11-30T12:00:00.123Z","task":"t","outcome":"churned"}]`,
		},
		"annotations": {
			call: func(ctx context.Context, c *client.Client, none bool) (*wire.Posted, error) {
				if none {
					return c.PostAnnotations(ctx)
				}
				return c.PostAnnotations(ctx, client.Annotation{At: at, Project: "p", Text: "x", Tags: []string{"tier"}})
			},
			uri: "/v1/annotations", body: `[{"ts":"2026-11-30T12:00:00.123Z","project":"p","text":"x","tags":["tier"]}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := &wire.Posted{Accepted: 1, Rejected: []wire.Rejected{{Index: 1, Field: "task", Error: "is missing"}}}
			tries := 0
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				switch tries++; tries {
				case 1:
					envelope.Fail(w, &envelope.Error{Status: 503, Message: "restarting"})
				case 2:
					envelope.JSON(w, 200, want)
				default:
					envelope.JSON(w, 400, wire.Posted{Rejected: want.Rejected})
				}
			})
			c := s.client(t, client.Config{Attempts: 2})
			got, err := tt.call(t.Context(), c, false)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			for _, r := range s.requests() {
				if r.method != http.MethodPost || r.uri != tt.uri || r.body != tt.body {
					t.Errorf("%s %s %s", r.method, r.uri, r.body)
				}
			}
			var e *envelope.Error
			if _, err := tt.call(t.Context(), c, false); !errors.Is(err, client.ErrInvalid) || !errors.As(err, &e) || e.Field != "task" || e.Message != "is missing" {
				t.Errorf("none was good: %v", err)
			}
			if got, err := tt.call(t.Context(), c, true); err != nil || got.Accepted != 0 || len(s.requests()) != 3 {
				t.Errorf("nothing to send: %v, %v", got, err)
			}
		})
	}
}
