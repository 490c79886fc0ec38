package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// recorder passes everything on to an Alertmanager and notes when that had taken
// an alert for the first time.
type recorder struct {
	server *httptest.Server
	proxy  *httputil.ReverseProxy

	mu    sync.Mutex
	taken map[alert]time.Time
	news  chan struct{} // closed, and made anew, when there is one
}

// alert is an alert of a ceiling.
type alert struct{ task, name, threshold string }

func newRecorder(to string) *recorder {
	target, err := url.Parse(to)
	if err != nil {
		panic(err) // it was made of an address
	}
	r := &recorder{taken: map[alert]time.Time{}, news: make(chan struct{})}
	r.proxy = &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }}
	r.server = httptest.NewServer(r)
	return r
}

func (r *recorder) url() string { return r.server.URL }

func (r *recorder) close() { r.server.Close() }

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	status := &statusWriter{ResponseWriter: w}
	r.proxy.ServeHTTP(status, req)
	if now := time.Now(); req.Method == http.MethodPost && status.code < http.StatusMultipleChoices {
		r.note(body, now)
	}
}

func (r *recorder) note(body []byte, now time.Time) {
	var alerts []struct{ Labels map[string]string }
	if json.Unmarshal(body, &alerts) != nil {
		return // Alertmanager would not have taken it
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range alerts {
		key := alert{a.Labels["task"], a.Labels["alertname"], a.Labels["threshold"]}
		if _, known := r.taken[key]; !known {
			r.taken[key] = now
		}
	}
	close(r.news)
	r.news = make(chan struct{})
}

// await is when Alertmanager had taken an alert; zero: not within patience.
func (r *recorder) await(a alert, patience time.Duration) time.Time {
	late := time.After(patience)
	for {
		r.mu.Lock()
		at, news := r.taken[a], r.news
		r.mu.Unlock()
		if !at.IsZero() {
			return at
		}
		select {
		case <-news:
		case <-late:
			return time.Time{}
		}
	}
}

// statusWriter keeps the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	code int
}

func (s *statusWriter) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}
