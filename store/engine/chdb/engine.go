package chdb

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

// ErrClosed is returned for work on a closed engine or connection.
var ErrClosed = errors.New("clickhouse engine is closed")

// Setting is one ClickHouse setting of a connection, or a server option given
// at start.
type Setting struct{ Name, Value string }

// Param is the value of a {name:Type} placeholder, as text in ClickHouse's
// escaped (TSV) form, which is what HTTP clients send as param_name.
type Param struct{ Name, Value string }

// Statement is one SQL statement with the format of its result (or, for
// Insert, of the data to come) and its parameters. SQL may contain any byte.
type Statement struct {
	SQL    string
	Format string
	Params []Param
}

// Engine is the ClickHouse engine of this process. A process can have only
// one at a time, and should start one only once: the library does not support
// restarting well. Safe for concurrent use.
type Engine struct {
	sym     *symbols
	path    string
	mu      sync.Mutex
	conns   int
	closing bool
	idle    *sync.Cond
	base    unsafe.Pointer
}

// Open loads the library at libPath and starts the engine on the data folder
// dataPath (created if absent; ":memory:" keeps nothing). options are server
// options such as logger.level. It takes 0.1 to 0.6 s, longer after a crash
// with much data. The library's own signal handlers stay off: they would
// fight with Go's.
func Open(libPath, dataPath string, options ...Setting) (*Engine, error) {
	sym, err := load(libPath)
	if err != nil {
		return nil, err
	}
	sym.setSignalHandlersEnabled(0)
	e := &Engine{sym: sym, path: dataPath}
	e.idle = sync.NewCond(&e.mu)
	// One connection stays open for the engine's life: closing the last one
	// shuts the engine down.
	if e.base, err = e.dial(options); err != nil {
		return nil, fmt.Errorf("starting the ClickHouse engine on %s: %w", dataPath, err)
	}
	return e, nil
}

// Version is the library's version, for example "26.7.3".
func (e *Engine) Version() string { return e.sym.version() }

// Connect opens a connection whose settings are the defaults plus the given
// ones; they end with the connection. It costs about a millisecond. An
// unknown or invalid setting is an error. Each connection runs one statement
// at a time; several run in parallel.
func (e *Engine) Connect(settings ...Setting) (*Conn, error) {
	e.mu.Lock()
	if e.closing {
		e.mu.Unlock()
		return nil, ErrClosed
	}
	e.conns++
	e.mu.Unlock()
	handle, err := e.dial(settings)
	if err != nil {
		e.release()
		return nil, err
	}
	return &Conn{engine: e, sym: e.sym, handle: handle}, nil
}

// Close waits until every connection is closed, then stops the engine, which
// writes what it still holds in memory. Further calls do nothing.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return nil
	}
	e.closing = true
	for e.conns > 0 {
		e.idle.Wait()
	}
	e.sym.close(e.base)
	e.base = nil
	return nil
}

func (e *Engine) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conns--
	e.idle.Broadcast()
}

// dial returns a connection handle: a pointer to the pointer that the other
// functions take.
func (e *Engine) dial(settings []Setting) (unsafe.Pointer, error) {
	args := []string{"clickhouse", "--path=" + e.path}
	for _, s := range settings {
		args = append(args, "--"+s.Name+"="+s.Value)
	}
	if slices.ContainsFunc(args, hasNUL) {
		return nil, errors.New("a setting contains a NUL byte")
	}
	argv := cStrings(args)
	handle := e.sym.connect(int32(len(args)), unsafe.Pointer(&argv[0]))
	runtime.KeepAlive(argv)
	if handle == nil {
		// The library gives no reason here; it logs one on standard error.
		return nil, errors.New("the library refused the connection")
	}
	return handle, nil
}
