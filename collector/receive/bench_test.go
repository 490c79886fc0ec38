package receive

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

type discard struct{}

func (discard) Record(context.Context, *usage.Facts) error { return nil }

// manyCalls are n calls of a fleet, one per line of about 440 bytes.
func manyCalls(n int) []byte {
	var b bytes.Buffer
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for i := range n {
		fmt.Fprintf(&b, `{"id":"req_011CSuoQ%016d","ts":"%s","project":"demo","repo":"szymonrychu/widgets","kind":"implement",`+
			`"task":"wrapper-task-%d","run":"wrapper-task-%d-0","session":"3f6c1c52-8d0e-4a55-9a4e-%012d","model":"claude-opus-4-8",`+
			`"effort":"high","input_tokens":%d,"output_tokens":%d,"cache_read_tokens":%d,"cache_write_tokens":%d,`+
			`"cache_write_5m_tokens":%d,"cost_usd":"0.%06d","duration_ms":%d}`+"\n",
			i, at.Add(time.Duration(i)*137*time.Millisecond).Format("2006-01-02T15:04:05.000Z"), i%50, i%50, i%50,
			i%300, 100+i%2000, 10000+i%90000, i%5000, i%5000, 100000+i%800000, 900+i%30000)
	}
	return b.Bytes()
}

// BenchmarkCalls is the whole of POST /v1/calls but the journal.
func BenchmarkCalls(b *testing.B) {
	const n = 5000
	body := manyCalls(n)
	r := New(DefaultConfig(), discard{}, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	r.now = func() time.Time { return time.Date(2026, 11, 30, 13, 0, 0, 0, time.UTC) }
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		req := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/calls", bytes.NewReader(body))
		if r.Calls(w, req); w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/call")
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "calls/s")
}
