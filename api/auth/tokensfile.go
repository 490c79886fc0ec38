package auth

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// checkEvery is how often the file of static tokens is looked at.
	checkEvery = time.Second
	// tokensBytes bounds the file: thousands of tokens.
	tokensBytes = 1 << 20
)

// tokensFile are the tokens of a file, read again when it changes. Kubernetes
// exchanges the target of a symbolic link, so the file is compared as well as
// its time and size. A new file that cannot be read or is wrong changes
// nothing.
type tokensFile struct {
	path    string
	log     *slog.Logger
	metrics *metrics
	now     func() time.Time

	set atomic.Pointer[tokenSet]

	mu      sync.Mutex
	checked time.Time
	read    os.FileInfo // of the last file that was read, broken or not
	broken  bool
}

// openTokens reads the file, which must be right at the start.
func openTokens(path string, log *slog.Logger, m *metrics, now func() time.Time) (*tokensFile, error) {
	f := &tokensFile{path: path, log: log, metrics: m, now: now, checked: now()}
	info, text, err := f.load()
	if err != nil {
		return nil, err
	}
	set, err := parseTokens(text)
	if err != nil {
		return nil, fmt.Errorf("reading --tokens-file %s: %w", path, err)
	}
	f.read = info
	f.set.Store(&set)
	return f, nil
}

// find is whom a token identifies.
func (f *tokensFile) find(hash fingerprint) (Identity, bool) {
	f.refresh()
	id, ok := (*f.set.Load())[hash]
	return id, ok
}

// refresh reads the file again if it changed. One caller does so; the others
// go on with what there is.
func (f *tokensFile) refresh() {
	if !f.mu.TryLock() {
		return
	}
	defer f.mu.Unlock()
	now := f.now()
	if now.Sub(f.checked) < checkEvery {
		return
	}
	f.checked = now
	info, err := os.Stat(f.path)
	if err == nil && f.read != nil && os.SameFile(info, f.read) && info.ModTime().Equal(f.read.ModTime()) && info.Size() == f.read.Size() {
		return
	}
	info, text, err := f.load()
	if err != nil {
		f.read = nil // whatever comes next is new
		f.fail(err)
		return
	}
	f.read = info
	set, err := parseTokens(text)
	if err != nil {
		f.broken = false // each broken file is logged
		f.fail(fmt.Errorf("reading --tokens-file %s: %w", f.path, err))
		return
	}
	f.set.Store(&set)
	f.broken = false
	f.metrics.reloads.WithLabelValues("ok").Inc()
	f.log.Info("static tokens were read again", "file", f.path, "tokens", len(set))
}

func (f *tokensFile) fail(err error) {
	f.metrics.reloads.WithLabelValues("failed").Inc()
	if !f.broken {
		f.log.Error("the file of static tokens changed and cannot be used: the old tokens stay", "error", err)
	}
	f.broken = true
}

// load reads the file, and says which one that was.
func (f *tokensFile) load() (os.FileInfo, []byte, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, nil, fmt.Errorf("opening --tokens-file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("looking at --tokens-file: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(file, tokensBytes+1))
	if err == nil && len(text) > tokensBytes {
		err = errors.New("it is larger than 1 MiB")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading --tokens-file %s: %w", f.path, err)
	}
	return info, text, nil
}
