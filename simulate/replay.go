package simulate

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"time"
)

//go:embed testdata/wrapper-push
var recordings embed.FS

// Recording is a recording of a real wrapper's pushes: index.json, the bodies,
// and README.md with what they amount to.
func Recording() fs.FS {
	sub, err := fs.Sub(recordings, "testdata/wrapper-push")
	if err != nil { // only of a path that is not one
		panic(err)
	}
	return sub
}

// recorded is a request of a recording.
type recorded struct {
	N       int               `json:"n"`
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Query   string            `json:"query"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"` // a file beside the index; "" is no body
}

// maxRecording bounds the index and each body.
const maxRecording = 64 << 20

// Replay sends the requests of a recording in their order, byte for byte, with
// a pause before each but the first. The scheme and host of pushURL replace
// those of the recording, and so does its path unless it is empty or "/". It
// repeats nothing: rejections are in the report.
func Replay(ctx context.Context, recording fs.FS, pushURL string, interval time.Duration) (Report, error) {
	report := Report{Rejected: map[int]int{}}
	if err := checkURL(pushURL); err != nil {
		return report, err
	}
	base, err := url.Parse(pushURL)
	if err != nil {
		return report, fmt.Errorf("reading the push URL: %w", err)
	}
	index, err := readRecording(recording)
	if err != nil {
		return report, err
	}
	report.Planned = len(index)
	cfg := DefaultConfig()
	client := newClient(&cfg)
	defer client.CloseIdleConnections()
	start := time.Now()
	for i, r := range index {
		if i > 0 {
			if err := sleep(ctx, interval); err != nil {
				return report, err
			}
		}
		req, err := r.request(ctx, recording, base)
		if err != nil {
			return report, fmt.Errorf("replaying request %d: %w", r.N, err)
		}
		report.add(send(client, req))
		report.Seconds = time.Since(start).Seconds()
		if err := context.Cause(ctx); err != nil {
			return report, err
		}
	}
	return report, nil
}

func readRecording(recording fs.FS) ([]recorded, error) {
	text, err := readBounded(recording, "index.json")
	if err != nil {
		return nil, err
	}
	var index []recorded
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, fmt.Errorf("reading index.json of the recording: %w", err)
	}
	if len(index) == 0 {
		return nil, fmt.Errorf("reading index.json of the recording: no requests")
	}
	return index, nil
}

func readBounded(recording fs.FS, name string) ([]byte, error) {
	f, err := recording.Open(name)
	if err != nil {
		return nil, fmt.Errorf("opening the recording: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRecording+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(text) > maxRecording {
		return nil, fmt.Errorf("reading %s: over %d bytes", name, maxRecording)
	}
	return text, nil
}

func (r *recorded) request(ctx context.Context, recording fs.FS, base *url.URL) (*http.Request, error) {
	target := *base
	if base.Path == "" || base.Path == "/" {
		target.Path = r.Path
	}
	target.RawQuery = r.Query
	var body io.Reader
	if r.Body != "" {
		text, err := readBounded(recording, r.Body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	for name, v := range r.Headers {
		if name != "Content-Length" { // follows from the body
			req.Header.Set(name, v)
		}
	}
	return req, nil
}
