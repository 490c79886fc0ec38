package main

import (
	"encoding/csv"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/api/wire"
)

func TestHandoffPutAndGet(t *testing.T) {
	t.Parallel()
	f := newFakeService(t)
	const key = "acme/widgets#7 ü%2F"
	body := "# State\n\nno newline at the end"
	o := f.mustHandoff(t, body, "put", key, "--project", "demo", "--repo", "acme/widgets", "--kind", "implement")
	if o.out != key+": revision 1, tag \"1\"\n" {
		t.Errorf("%q", o.out)
	}
	if o = f.mustHandoff(t, "", "get", key); o.out != body {
		t.Errorf("%q", o.out)
	}
	var row wire.Handoff
	o = f.mustHandoff(t, "", "get", key, "--format", "json")
	if err := json.Unmarshal([]byte(o.out), &row); err != nil {
		t.Fatal(err)
	}
	if row.Kind != "implement" || row.Repo != "acme/widgets" || row.Project != "demo" || row.Body != body {
		t.Errorf("%+v", row)
	}
	file := filepath.Join(t.TempDir(), "note.md")
	if err := os.WriteFile(file, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.mustHandoff(t, "", "put", key, "--project", "demo", "--file", file, "--if-match", "1") // a shell ate the quotes
	f.handoff(t, "put", key, "--project", "demo", "--file", file, "--if-match", `"1"`).fails(t, 1, "by somebody else", "answered 412")
	f.handoff(t, "put", key, "--project", "demo", "--file", file, "--if-absent").fails(t, 1, "there is a handoff under this key already")
	f.handoff(t, "get", "nothing").fails(t, 1, `no handoff under "nothing"`, "handoff revisions", "request R1")
}

func TestHandoffMistakes(t *testing.T) {
	t.Parallel()
	f := newFakeService(t)
	for want, args := range map[string][]string{
		"--project is required":        {"put", "k"},
		"exclude each other":           {"put", "k", "--project", "p", "--if-absent", "--if-match", "1"},
		"want text or json":            {"get", "k", "--format", "csv"},
		"want table, json or csv":      {"list", "--format", "text"},
		"--older-than \"soon\"":        {"list", "--older-than", "soon"},
		"--updated-before \"soon\"":    {"list", "--updated-before", "soon"},
		"--older-than and --updated-b": {"list", "--older-than", "7d", "--updated-before", "2026-01-01"},
		"--limit must not be negative": {"list", "--limit", "-1"},
		"--revision is required":       {"restore", "k"},
		"--from and --to are numbers":  {"diff", "k", "--from", "-1"},
		"http(s)://host":               {"list", "--url", "nowhere"},
		"the OIDC issuer must be":      {"list", "--oidc-client-id", "me"},
	} {
		f.handoff(t, args...).fails(t, 2, want)
	}
	if f.writes > 0 || len(f.lists) > 0 {
		t.Error("a mistake reached the service")
	}
	f.handoff(t, "put", "k", "--project", "p", "--file", "/nowhere").fails(t, 1, "opening the body")
}

func TestHandoffList(t *testing.T) {
	t.Parallel()
	f := newFakeService(t)
	for _, key := range []string{"a", "b", "c", "d\x1b[31m\nx"} {
		f.put1(key, "demo", "body of "+key)
	}
	f.put1("other", "elsewhere", "x")
	o := f.mustHandoff(t, "", "list", "--project", "demo", "--limit", "3")
	for _, want := range []string{"│ key ", "│ d\ufffd[31m x │ demo", "│        1 │", "2026-11-30 12:00:04"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("no %q in\n%s", want, o.out)
		}
	}
	if strings.Contains(o.out, "│ a ") || o.errOut != "There are more than these 3: --limit 0 lists all.\n" {
		t.Errorf("%s\n%s", o.out, o.errOut)
	}
	var rows []wire.Handoff
	o = f.mustHandoff(t, "", "list", "--limit", "0", "--format", "json")
	if err := json.Unmarshal([]byte(o.out), &rows); err != nil || len(rows) != 5 || rows[0].HandoffKey != "other" || o.errOut != "" {
		t.Errorf("%v: %s", err, o.out)
	}
	o = f.mustHandoff(t, "", "list", "--project", "none", "--format", "json")
	if o.out != "[]\n" {
		t.Errorf("%q", o.out)
	}
	o = f.mustHandoff(t, "", "list", "--project", "elsewhere", "--format", "csv")
	records, err := csv.NewReader(strings.NewReader(o.out)).ReadAll()
	if err != nil || len(records) != 2 || len(records[0]) != len(records[1]) || records[1][0] != "other" || records[1][5] != `"1"` {
		t.Errorf("%q, %v", records, err)
	}
}

func TestHandoffListFilters(t *testing.T) {
	t.Parallel()
	f := newFakeService(t)
	start := time.Now()
	f.mustHandoff(t, "", "list", "--repo", "o/r", "--kind", "k", "--q", "flaky test", "--older-than", "14d")
	f.mustHandoff(t, "", "list", "--updated-before", "2026-11-01")
	q := f.lists[0]
	if q.Get("repo") != "o/r" || q.Get("kind") != "k" || q.Get("q") != "flaky test" {
		t.Errorf("%v", q)
	}
	before, err := time.Parse(time.RFC3339, q.Get("updated_before"))
	if age := start.Sub(before); err != nil || age > 14*24*time.Hour || age < 14*24*time.Hour-time.Minute {
		t.Errorf("%s, %v", before, err)
	}
	if got := f.lists[len(f.lists)-1].Get("updated_before"); got != "2026-11-01T00:00:00Z" {
		t.Error(got)
	}
}

func TestHandoffHistory(t *testing.T) {
	t.Parallel()
	f := newFakeService(t)
	f.put1("k", "demo", "# State\n\none\nsame\n")
	f.put1("k", "demo", "# State\n\ntwo\nsame\n")
	o := f.mustHandoff(t, "", "delete", "k")
	if o.out != "k: deleted\n" {
		t.Errorf("%q", o.out)
	}
	f.mustHandoff(t, "", "delete", "k")
	f.handoff(t, "delete", "k", "--if-match", "2").fails(t, 1, "is gone")
	o = f.mustHandoff(t, "", "restore", "k", "--revision", "1")
	if o.out != "k: revision 3, tag \"3\"\n" {
		t.Errorf("%q", o.out)
	}
	f.handoff(t, "restore", "k", "--revision", "9").fails(t, 1, "revision not found")
	o = f.mustHandoff(t, "", "revisions", "k")
	for _, want := range []string{"copy of", "│        3 │", "│       1 │"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("no %q in\n%s", want, o.out)
		}
	}
	o = f.mustHandoff(t, "", "revisions", "k", "--format", "csv")
	if lines := strings.Split(o.out, "\n"); len(lines) != 5 || !strings.HasSuffix(lines[1], ",demo,,,18,1,R9") {
		t.Errorf("%s", o.out)
	}
}

func TestHandoffDiff(t *testing.T) {
	t.Parallel()
	f := newFakeService(t)
	f.handoff(t, "diff", "k").fails(t, 1, "no revision is kept")
	f.put1("k", "demo", "# State\n\none\nsame\n")
	f.handoff(t, "diff", "k").fails(t, 1, "nothing is kept from before revision 1")
	f.put1("k", "demo", "# State\n\ntwo\nsame\n")
	f.put1("k", "moved", "# State\n\ntwo\nsame\nmore")
	o := f.mustHandoff(t, "", "diff", "k", "--from", "1", "--to", "2")
	want := "--- k@1\t2026-11-30T12:00:02Z\n+++ k@2\t2026-11-30T12:00:04Z\n@@ -1,4 +1,4 @@\n # State\n \n-one\n+two\n same\n"
	if diff := cmp.Diff(want, o.out); diff != "" {
		t.Error(diff)
	}
	o = f.mustHandoff(t, "", "diff", "k")
	if !strings.HasPrefix(o.out, "project: \"demo\" -> \"moved\"\n--- k@2") || !strings.Contains(o.out, "+more\n\\ No newline at end of file") {
		t.Errorf("%q", o.out)
	}
	if o = f.mustHandoff(t, "", "diff", "k", "--from", "2", "--to", "2"); o.out != "" {
		t.Errorf("%q", o.out)
	}
	f.handoff(t, "diff", "k", "--from", "7").fails(t, 1, "revision 7 is not kept: there are 1 to 3")
}

// TestRemedies: an error names what helps.
func TestRemedies(t *testing.T) {
	t.Parallel()
	f := newFakeService(t)
	status := 401

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f.handoff(t, "list", "--url", away).fails(t, 1, "is tatara-ledger serve running there?", "TATARA_LEDGER_URL")
	f.handoff(t, "list", "--token-file", "/nowhere").fails(t, 1, "see --token-file", "/nowhere")
	f.fail = failAll(&status)
	f.handoff(t, "list").fails(t, 1, "give a token: --token-file")
	status = 403
	f.handoff(t, "get", "k").fails(t, 1, "the ledger answered 403: failing; as told (request R1)")
}
