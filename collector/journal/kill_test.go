package journal

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// childEnv names the folder in which the test binary, re-executed, appends and
// drains until it is killed.
const childEnv = "JOURNAL_TEST_CHILD"

// child prints "A worker n" for each acknowledged record, "D worker n" for each
// one handed out, "F first" before a batch's and "C last" after its commit.
func child(dir string) int {
	cfg := DefaultConfig(dir)
	cfg.SegmentBytes, cfg.MaxRecordBytes, cfg.GroupBytes = 64<<10, 16<<10, 32<<10
	j, err := Open(cfg, slog.New(slog.NewTextHandler(os.Stderr, nil)), prometheus.NewRegistry())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx := context.Background()
	life := time.Now().UnixNano()
	for w := range 8 {
		go func() {
			for n := 0; ; n++ {
				record := fmt.Appendf(nil, "%d-%d %d\n%s", life, w, n, strings.Repeat("p", rand.IntN(2000)))
				if err := j.Append(ctx, record); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				fmt.Fprintf(os.Stdout, "A %d-%d %d\n", life, w, n)
			}
		}()
	}
	for {
		b, err := j.Next(ctx)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		var out bytes.Buffer
		fmt.Fprintf(&out, "F %d\n", b.First)
		for _, r := range b.Records {
			id, _, _ := bytes.Cut(r, []byte("\n"))
			fmt.Fprintf(&out, "D %s\n", id)
		}
		if _, err := out.WriteTo(os.Stdout); err != nil {
			return 1
		}
		if rand.IntN(4) == 0 {
			continue // leaves a backlog behind
		}
		if err := j.Commit(b.Last); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Fprintf(os.Stdout, "C %d\n", b.Last)
	}
}

func TestKilledAtRandomPointsLosesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acked, seen := map[string]bool{}, map[string]bool{}
	var committed Position
	for round := range 10 {
		out := killedChild(t, dir, time.Duration(20+rand.IntN(150))*time.Millisecond)
		order := map[string]int{}
		first := true
		for _, line := range out {
			var p Position
			var worker string
			var n int
			switch line[0] {
			case 'A':
				acked[line[2:]] = true
			case 'D':
				seen[line[2:]] = true
				scan(t, line, &worker, &n)
				if last, ok := order[worker]; ok && n != last+1 {
					t.Fatalf("round %d: worker %s: %d after %d", round, worker, n, last)
				}
				order[worker] = n
			case 'F':
				scan(t, line, &p)
				if first && p <= committed {
					t.Fatalf("round %d: begins at %d, but %d was committed", round, p, committed)
				}
				first = false
			case 'C':
				scan(t, line, &committed)
			}
		}
	}
	cfg := DefaultConfig(dir)
	j := openTest(t, cfg, osDisk{})
	rest, _ := drain(t, j)
	for _, r := range rest {
		id, _, _ := strings.Cut(r, "\n")
		seen[id] = true
	}
	if len(acked) < 100 {
		t.Errorf("only %d records were acknowledged", len(acked))
	}
	for id := range acked {
		if !seen[id] {
			t.Errorf("acknowledged record %s is lost", id)
		}
	}
	t.Logf("%d acknowledged, %d seen, %d left at the end", len(acked), len(seen), len(rest))
}

// killedChild runs a child for a while after its first line and returns its
// whole lines.
func killedChild(t *testing.T, dir string, d time.Duration) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	var kill sync.Once
	r := bufio.NewReader(stdout)
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			break // a line that was cut by the kill does not count
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.TrimSuffix(line, "\n"))
		kill.Do(func() {
			time.AfterFunc(d, func() {
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
			})
		})
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Fatalf("child: %v\n%s", err, stderr.String())
	}
	if strings.Contains(stderr.String(), "damaged") {
		t.Errorf("a kill looks like damage:\n%s", stderr.String())
	}
	return lines
}

// scan reads what follows the letter of a child's line.
func scan(t *testing.T, line string, into ...any) {
	t.Helper()
	if _, err := fmt.Sscan(line[2:], into...); err != nil {
		t.Fatalf("line %q: %v", line, err)
	}
}
