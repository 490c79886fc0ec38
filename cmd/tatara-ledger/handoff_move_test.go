package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/api/wire"
)

func failAll(status *int) func(*http.Request) int {
	return func(*http.Request) int { return *status }
}

// TestMove: what is exported is imported, and importing it again changes
// nothing.
func TestMove(t *testing.T) {
	t.Parallel()
	from, to := newFakeService(t), newFakeService(t)
	bodies := map[string]string{}
	for _, key := range []string{"a/b", "c", "d", "e", "ü%2F#", "<&>"} {
		bodies[key] = "# " + key + "\n\u2028\t\"quoted\" </x>\n"
		from.put1(key, "demo", bodies[key])
	}
	from.put1("other", "elsewhere", "x")
	file := filepath.Join(t.TempDir(), "handoffs.ndjson")
	o := from.mustHandoff(t, "", "export", "--project", "demo")
	if n := strings.Count(o.out, "\n"); n != 6 || o.errOut != "" {
		t.Fatalf("%d lines, %s", n, o.errOut)
	}
	if err := os.WriteFile(file, []byte("\ufeff"+o.out+"\n \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o = to.mustHandoff(t, "", "import", file)
	if o.out != "6 created, 0 updated, 0 unchanged, 0 skipped\n" {
		t.Error(o.out)
	}
	got := map[string]string{}
	for key, h := range to.handoffs {
		got[key] = h.Body
	}
	if diff := cmp.Diff(bodies, got); diff != "" {
		t.Error(diff)
	}
	writes := to.writes
	o = to.mustHandoff(t, "", "import", file)
	if o.out != "0 created, 0 updated, 6 unchanged, 0 skipped\n" || to.writes != writes {
		t.Errorf("%s, %d writes", o.out, to.writes-writes)
	}
}

// TestImportNewer: the newer one wins, the target's unless --overwrite.
func TestImportNewer(t *testing.T) {
	t.Parallel()
	f := newFakeService(t)
	f.put1("newer", "demo", "the target's")
	f.put1("older", "demo", "the target's")
	f.put1("undated", "demo", "the target's")
	lines := `{"handoff_key":"newer","project":"demo","body":"the file's","updated_at":"2026-11-01T00:00:00Z"}
{"handoff_key":"older","project":"demo","body":"the file's","updated_at":"2026-12-01T00:00:00Z","revision":7}
{"handoff_key":"undated","project":"demo","body":"the file's"}`
	o := f.mustHandoff(t, lines, "import", "-")
	if o.out != "0 created, 1 updated, 0 unchanged, 2 skipped: newer at the target (--overwrite replaces them): newer, undated\n" {
		t.Error(o.out)
	}
	if f.handoffs["newer"].Body != "the target's" || f.handoffs["older"].Body != "the file's" {
		t.Errorf("%+v", f.handoffs)
	}
	o = f.mustHandoff(t, lines, "import", "-", "--overwrite")
	if o.out != "0 created, 2 updated, 1 unchanged, 0 skipped\n" {
		t.Error(o.out)
	}
}

// TestImportRace: what somebody else writes between comparison and write is
// compared anew.
func TestImportRace(t *testing.T) {
	t.Parallel()
	f := newFakeService(t)
	f.put1("k", "demo", "older")
	writes := 0
	f.fail = func(r *http.Request) int {
		if r.Method != http.MethodPost {
			return 0
		}
		if writes++; writes == 2 { // between comparison and write
			f.write(wire.HandoffWrite{HandoffKey: "k", Project: "demo", Body: "somebody else's"}, 0)
		}
		return 0
	}
	o := f.mustHandoff(t, `{"handoff_key":"k","project":"demo","body":"the file's","updated_at":"2026-11-30T12:00:02.5Z"}`, "import", "-")
	if !strings.HasPrefix(o.out, "0 created, 0 updated, 0 unchanged, 1 skipped") || f.handoffs["k"].Body != "somebody else's" {
		t.Error(o.out)
	}
}

// TestImportMistakes: the first bad line ends an import, which says which it is
// and how far it got.
func TestImportMistakes(t *testing.T) {
	t.Parallel()
	const good = `{"handoff_key":"k","project":"demo","body":"b"}` + "\n"
	for name, tt := range map[string]struct{ line, want string }{
		"no JSON":    {`{"handoff_key":`, "line 2: is no JSON object"},
		"an array":   {`[]`, "line 2: is no JSON object"},
		"no key":     {`{"project":"demo","body":"b"}`, "line 2: handoff_key: is missing or empty"},
		"no project": {`{"handoff_key":"x","body":"b"}`, "line 2: project: is missing or empty"},
		"blank body": {`{"handoff_key":"x","project":"demo","body":" \n"}`, "line 2: body: is missing or empty"},
		"a number":   {`{"handoff_key":"x","project":"demo","body":7}`, "line 2: body: is a JSON number"},
		"a bad time": {`{"handoff_key":"x","project":"demo","body":"b","updated_at":"soon"}`, "line 2: updated_at: "},
		"bad UTF-8":  {"{\"handoff_key\":\"x\",\"project\":\"demo\",\"body\":\"\xff\"}", "invalid UTF-8"},
		"twice":      {`{"handoff_key":"x","project":"demo","body":"b","body":"c"}`, "line 2: is no JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeService(t)
			o := f.runCommand(t, newHandoffCommand(), good+tt.line+"\n"+good, "import", "-")
			o.fails(t, 1, tt.want)
			if o.out != "1 created, 0 updated, 0 unchanged, 0 skipped\n" || f.writes != 1 {
				t.Errorf("%s, %d writes", o.out, f.writes)
			}
		})
	}
	f := newFakeService(t)
	f.handoff(t, "import", "/nowhere").fails(t, 1, "opening the import")
	status := 409
	f.fail = failAll(&status)
	f.runCommand(t, newHandoffCommand(), good, "import", "-").fails(t, 1, "line 1: the ledger answered 409: failing")
}

func TestExportFails(t *testing.T) {
	t.Parallel()
	f := newFakeService(t)
	for _, key := range []string{"a", "b", "c", "d"} {
		f.put1(key, "demo", "x")
	}
	f.fail = func(r *http.Request) int {
		if r.URL.Query().Get("after") != "" {
			return 500
		}
		return 0
	}
	o := f.handoff(t, "export")
	o.fails(t, 1, "exporting, after 3 handoffs: the ledger answered 500")
	if strings.Count(o.out, "\n") != 3 || !strings.HasSuffix(o.out, "}\n") {
		t.Errorf("%q", o.out)
	}
}
