package journal

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// FuzzSegment is best run with -fuzzminimizetime=1x: coverage of concurrent code
// varies, and minimizing takes it for progress.
//
// It opens a folder with an arbitrary segment followed by a good one:
// the start succeeds, nothing panics or hangs, and the good one is read whole.
func FuzzSegment(f *testing.F) {
	c := newCodec(7)
	var good []byte
	for n := range 4 {
		p := bytes.Repeat([]byte{byte(n)}, n*10)
		h := header{length: uint32(len(p)), number: uint64(n + 1), durable: uint32(len(good)), payload: c.sum(p)}
		good = append(c.appendHeader(good, h), p...)
	}
	f.Add(good, true)
	f.Add(good[:len(good)-1], false)
	f.Add(append(make([]byte, 100), good...), true)
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, data []byte, last bool) {
		cfg := small(t.TempDir())
		if err := os.WriteFile(filepath.Join(cfg.Dir, segmentName(1, 1, 7)), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if !last {
			p := []byte("good")
			next := newCodec(9).appendHeader(nil, header{length: 4, number: 5, payload: c.sum(p)})
			if err := os.WriteFile(filepath.Join(cfg.Dir, segmentName(2, 5, 9)), append(next, p...), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		j := openTest(t, cfg, osDisk{})
		appendTest(t, j, "after")
		var got []string
		for {
			b, err := j.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range b.Records {
				got = append(got, string(r))
			}
			if b.Last == j.Stats().Last {
				break
			}
		}
		if got[len(got)-1] != "after" || !last && got[len(got)-2] != "good" {
			t.Errorf("read %q", got)
		}
		if err := j.Commit(j.Stats().Last); err != nil {
			t.Error(err)
		}
	})
}

// FuzzRecords stores arbitrary records and reads them back over a restart.
func FuzzRecords(f *testing.F) {
	f.Add([]byte("one\x00two\x00\x00three"), byte(1))
	f.Fuzz(func(t *testing.T, data []byte, commit byte) {
		cfg := small(t.TempDir())
		j := openTest(t, cfg, osDisk{})
		var want [][]byte
		for r := range bytes.SplitSeq(data, []byte{0}) {
			if len(want) == 20 || len(r) > cfg.MaxRecordBytes {
				break
			}
			appendTest(t, j, string(r))
			want = append(want, r)
		}
		got, _ := drain(t, j)
		for i, r := range want {
			if i >= len(got) || got[i] != string(r) {
				t.Fatalf("record %d of %d is not %q", i, len(got), r)
			}
		}
		p := int(commit) % (len(want) + 1)
		if err := j.Commit(Position(p)); err != nil {
			t.Fatal(err)
		}
		closeTest(t, j)
		j = openTest(t, cfg, osDisk{})
		if got, _ := drain(t, j); len(got) != len(want)-p {
			t.Errorf("%d records after a restart, want %d", len(got), len(want)-p)
		}
	})
}
