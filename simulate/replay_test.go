package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestReplay: what arrives is what was recorded, in its order.
func TestReplay(t *testing.T) {
	t.Parallel()
	r, url := newReceiver(t)
	var headers []http.Header
	r.fault = func(req *http.Request) fault {
		headers = append(headers, req.Header.Clone())
		return none
	}
	report, err := Replay(t.Context(), Recording(), url, 0)
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(Recording(), "index.json")
	if err != nil {
		t.Fatal(err)
	}
	var index []recorded
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	if report.Acknowledged != 21 || report.Planned != 21 || len(r.requests) != len(index) {
		t.Fatalf("%+v, %d requests for %d", report, len(r.requests), len(index))
	}
	for i, want := range index {
		got := r.requests[i]
		var body []byte
		if want.Body != "" {
			if body, err = fs.ReadFile(Recording(), want.Body); err != nil {
				t.Fatal(err)
			}
		}
		if got.method != want.Method || got.target != want.Path+"?"+want.Query || string(got.body) != string(body) {
			t.Errorf("request %d: %s %s with %d bytes", want.N, got.method, got.target, len(got.body))
		}
		for name, v := range want.Headers {
			if headers[i].Get(name) != v {
				t.Errorf("request %d: %s is %q, want %q", want.N, name, headers[i].Get(name), v)
			}
		}
	}
}

func TestReplayPaths(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{"": "/internal/metrics/push", "/": "/internal/metrics/push", "/proxy/push": "/proxy/push"} {
		r, url := newReceiver(t)
		one := fstest.MapFS{"index.json": {Data: []byte(`[{"n":1,"method":"DELETE","path":"/internal/metrics/push","query":"run_id=x"}]`)}}
		host := strings.TrimSuffix(url, "/internal/metrics/push")
		if _, err := Replay(t.Context(), one, host+base, 0); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want+"?run_id=x", r.requests[0].target); diff != "" {
			t.Errorf("%q: %s", base, diff)
		}
	}
}

func TestReplayMistakes(t *testing.T) {
	t.Parallel()
	_, url := newReceiver(t)
	for want, text := range map[string]string{
		"opening the recording":  "",
		"reading index.json":     "{",
		"no requests":            "[]",
		"replaying request 7: o": `[{"n":7,"method":"POST","body":"../../etc/passwd"}]`,
		"making the request":     `[{"n":1,"method":"a b"}]`,
	} {
		recording := fstest.MapFS{}
		if text != "" {
			recording["index.json"] = &fstest.MapFile{Data: []byte(text)}
		}
		if _, err := Replay(t.Context(), recording, url, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := Replay(t.Context(), Recording(), "nowhere", 0); err == nil {
		t.Error("a push URL without a host")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Replay(ctx, Recording(), url, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestReplayRejected: rejections are counted and do not end the replay.
func TestReplayRejected(t *testing.T) {
	t.Parallel()
	r, url := newReceiver(t)
	r.fault = func(*http.Request) fault { return busy }
	report, err := Replay(t.Context(), Recording(), url, 0)
	if err != nil || report.Rejected[http.StatusServiceUnavailable] != 21 {
		t.Errorf("%+v, %v", report, err)
	}
}
