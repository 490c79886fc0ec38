package chdb

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// engine starts the engine: a process can do that once, so there is one test
// of it, with parts.
func engine(t *testing.T) *Engine {
	t.Helper()
	lib, err := Locate()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("the ClickHouse engine is required when CI=true:", err)
		}
		t.Skip("SKIPPING EVERY TEST OF THE EMBEDDED CLICKHOUSE:", err)
	}
	e, err := Open(lib, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func connect(t *testing.T, e *Engine, settings ...Setting) *Conn {
	t.Helper()
	c, err := e.Connect(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func exec(t *testing.T, c *Conn, sql string, params ...Param) string {
	t.Helper()
	b, _, err := c.Exec(Statement{SQL: sql, Format: "TSV", Params: params})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return string(b)
}

func TestEngine(t *testing.T) {
	e := engine(t)
	t.Run("settings end with the connection", func(t *testing.T) {
		if got := exec(t, connect(t, e, Setting{"max_threads", "1"}), "SELECT getSetting('max_threads')"); got != "1\n" {
			t.Error(got)
		}
		if _, err := e.Connect(Setting{"max_threads", "many"}); err == nil {
			t.Error("a setting that is no number was accepted")
		}
		if _, err := e.Connect(Setting{"log_comment", "a\x00b"}); err == nil {
			t.Error("a NUL byte was accepted")
		}
	})
	t.Run("parameters hold any byte", func(t *testing.T) {
		got := exec(t, connect(t, e), "SELECT hex({a:String}), hex({b:String})", Param{"a", "x;'\\0"}, Param{"b", ""})
		if got != "783B2700\t\n" {
			t.Errorf("%q", got)
		}
	})
	t.Run("errors are typed", func(t *testing.T) {
		_, _, err := connect(t, e).Exec(Statement{SQL: "SELECT * FROM nowhere", Format: "TSV"})
		var ex *Error
		if !errors.As(err, &ex) || ex.Code != 60 || ex.Name != "UNKNOWN_TABLE" {
			t.Errorf("%#v", err)
		}
		if _, err = connect(t, e).Query(Statement{SQL: "SELEKT 1", Format: "TSV"}); !errors.As(err, &ex) || ex.Code != 62 {
			t.Errorf("%#v", err)
		}
	})
	t.Run("classes", func(t *testing.T) {
		c := connect(t, e)
		for sql, want := range map[string]Analysis{
			"SELECT 1":                        {ReadOnly, 1, false},
			"SELECT 1; SELECT 2":              {ReadOnly, 2, false},
			"CREATE TABLE t (a Int8)":         {Mutating, 1, false},
			"CREATE FUNCTION f AS x -> x":     {MutatingGlobal, 1, false},
			"SET max_threads = 1":             {Control, 1, false},
			"SELECT 1 INTO OUTFILE '/dev/nu'": {Control, 1, false},
			"SELEKT 1":                        {Unknown, 0, false},
		} {
			if got, err := c.Classify(sql); err != nil || got != want {
				t.Errorf("%s: %+v, %v; want %+v", sql, got, err, want)
			}
		}
	})
	t.Run("streams", func(t *testing.T) { testStreams(t, e) })
	t.Run("connections in parallel", func(t *testing.T) {
		var group sync.WaitGroup
		for i := range 4 {
			c := connect(t, e)
			group.Go(func() {
				for range 20 {
					if got := exec(t, c, fmt.Sprintf("SELECT count() + %d FROM numbers(1000)", i)); got != fmt.Sprintf("%d\n", 1000+i) {
						t.Errorf("%q", got)
					}
				}
			})
		}
		group.Wait()
	})
	if err := errors.Join(e.Close(), e.Close()); err != nil {
		t.Error(err)
	}
	if _, err := e.Connect(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func testStreams(t *testing.T, e *Engine) {
	c := connect(t, e)
	exec(t, c, "CREATE DATABASE d")
	exec(t, c, "CREATE TABLE d.t (a UInt32, b String) ENGINE = MergeTree ORDER BY a")
	insert, err := c.Insert(Statement{SQL: "INSERT INTO d.t", Format: "CSV"})
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range []string{"1,\"x", ";\x00", "\"\n", "", "2,y\n"} { // cut anywhere
		if _, err := insert.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	stats, err := insert.Done()
	if err = errors.Join(err, insert.Close(), insert.Close()); err != nil || stats.WrittenRows != 2 {
		t.Fatal(stats, err)
	}
	abandoned, err := c.Insert(Statement{SQL: "INSERT INTO d.t", Format: "CSV"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := abandoned.Write([]byte("3,z\n")); err != nil {
		t.Fatal(err)
	}
	if err := abandoned.Close(); err != nil {
		t.Fatal(err)
	}
	if got := exec(t, c, "SELECT a, hex(b) FROM d.t ORDER BY a"); got != "1\t783B00\n2\t79\n" {
		t.Errorf("%q", got)
	}
	broken, err := c.Insert(Statement{SQL: "INSERT INTO d.t", Format: "CSV"})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = broken.Write([]byte("abc,z\n"))
	var ex *Error
	if _, err := broken.Done(); !errors.As(err, &ex) || ex.Code == 0 {
		t.Errorf("%#v", err)
	}
	_ = broken.Close()

	rows, err := c.Query(Statement{SQL: "SELECT number FROM numbers(1000000)", Format: "TSV"})
	if err != nil {
		t.Fatal(err)
	}
	lines, chunks := 0, 0
	for {
		b, err := rows.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(b), "\n")
		chunks++
	}
	if _, err := rows.Next(); !errors.Is(err, io.EOF) || lines != 1_000_000 || chunks < 2 || rows.Stats().ResultRows != 1_000_000 {
		t.Error(lines, chunks, rows.Stats(), err)
	}
	_ = rows.Close()
	// A result that nobody reads to its end frees the connection.
	if rows, err = c.Query(Statement{SQL: "SELECT number FROM system.numbers", Format: "TSV"}); err != nil {
		t.Fatal(err)
	}
	if _, err := rows.Next(); err != nil {
		t.Fatal(err)
	}
	_ = rows.Close()
	exec(t, c, "SELECT 1")
}

func TestParseError(t *testing.T) {
	for text, want := range map[string]*Error{
		"Code: 60. DB::Exception: No t. (UNKNOWN_TABLE) (version 26.7.2.1 (official build))": {60, "UNKNOWN_TABLE", "No t."},
		"Code: 395. DB::Exception: a (b) c. (FUNCTION_THROW_IF_VALUE_IS_NON_ZERO)":           {395, "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO", "a (b) c."},
		"Code: 1. DB::Exception: says (version 3 of (X) it)":                                 {1, "", "says"},
		"something else": {0, "", "something else"},
	} {
		if diff := cmp.Diff(want, parseError(text)); diff != "" {
			t.Error(text, diff)
		}
	}
}

func TestLocate(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	t.Setenv(LibraryEnv, "")
	if _, err := Locate(); !errors.Is(err, ErrNoLibrary) {
		t.Error(err)
	}
	lib := filepath.Join(folder, "tools", "node_modules", filepath.FromSlash(Package()), "libchdb.so")
	if err := errors.Join(os.MkdirAll(filepath.Dir(lib), 0o755), os.WriteFile(lib, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if got, err := Locate("tools"); err == nil && !strings.HasSuffix(got, "libchdb.so") {
		t.Error(got)
	}
	t.Setenv(LibraryEnv, filepath.Join(folder, "nowhere"))
	if _, err := Locate("tools"); err == nil || errors.Is(err, ErrNoLibrary) {
		t.Error(err)
	}
	t.Setenv(LibraryEnv, lib)
	if got, err := Locate(); err != nil || got != lib {
		t.Error(got, err)
	}
}
