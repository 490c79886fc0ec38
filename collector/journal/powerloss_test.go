package journal

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// volatileDisk knows what a power loss leaves: file contents as of their last
// sync, names as of the folder's last sync, and of anything newer an arbitrary
// part, name by name and with zeroes in place of data. That is harsher than real
// file systems, which keep some order.
type volatileDisk struct {
	osDisk
	mu            sync.Mutex
	rng           *rand.Rand
	live, durable map[string]*inode
	left          int               // operations until the power goes
	lost          map[string][]byte // what the power loss left; nil before it
}

type inode struct{ data, synced []byte }

// loadDisk returns the disk of a machine that has just booted.
func loadDisk(t *testing.T, dir string, rng *rand.Rand, left int) *volatileDisk {
	d := &volatileDisk{rng: rng, left: left, live: map[string]*inode{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		d.live[e.Name()] = &inode{data: b, synced: slices.Clone(b)}
	}
	d.durable = maps.Clone(d.live)
	return d
}

func (d *volatileDisk) dead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost != nil
}

// step counts an operation and then applies its effect; the power may go just
// before it.
func (d *volatileDisk) step(effect func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left--; d.left == 0 {
		d.loseWith()
	}
	effect()
}

func (d *volatileDisk) loseWith() {
	d.lost = map[string][]byte{}
	names := maps.Clone(d.live)
	maps.Copy(names, d.durable)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		from := d.durable
		if d.rng.IntN(2) == 0 {
			from = d.live
		}
		n := from[name]
		if n == nil {
			continue
		}
		b := slices.Clone(n.synced)
		if extra := len(n.data) - len(b); extra > 0 {
			b = append(b, n.data[len(b):len(b)+d.rng.IntN(extra+1)]...)
			if unsynced := b[len(n.synced):]; len(unsynced) > 0 {
				i := d.rng.IntN(len(unsynced))
				clear(unsynced[i : i+d.rng.IntN(len(unsynced)-i+1)])
			}
		}
		d.lost[name] = b
	}
}

func (d *volatileDisk) Create(path string) (writeFile, error) {
	f, err := d.osDisk.Create(path)
	n := &inode{}
	d.step(func() { d.live[filepath.Base(path)] = n })
	return &volatileFile{writeFile: f, disk: d, inode: n}, err
}

func (d *volatileDisk) Rename(from, to string) error {
	d.step(func() {
		d.live[filepath.Base(to)] = d.live[filepath.Base(from)]
		delete(d.live, filepath.Base(from))
	})
	return d.osDisk.Rename(from, to)
}

func (d *volatileDisk) Remove(path string) error {
	d.step(func() { delete(d.live, filepath.Base(path)) })
	return d.osDisk.Remove(path)
}

func (d *volatileDisk) Truncate(path string, size int64) error {
	d.step(func() {
		n := d.live[filepath.Base(path)]
		n.data = n.data[:size]
		n.synced = slices.Clone(n.data)
	})
	return d.osDisk.Truncate(path, size)
}

func (d *volatileDisk) SyncDir(string) error {
	d.step(func() { d.durable = maps.Clone(d.live) })
	return nil
}

type volatileFile struct {
	writeFile
	disk  *volatileDisk
	inode *inode
}

func (f *volatileFile) Write(b []byte) (int, error) {
	f.disk.step(func() { f.inode.data = append(f.inode.data, b...) })
	return f.writeFile.Write(b)
}

func (f *volatileFile) Sync() error {
	f.disk.step(func() { f.inode.synced = slices.Clone(f.inode.data) })
	return nil
}

func TestPowerLossLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	seeds := 400
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		checkPowerLoss(t, rand.New(rand.NewPCG(uint64(seed), 1)), seed)
	}
}

func checkPowerLoss(t *testing.T, rng *rand.Rand, seed int) {
	cfg := small(t.TempDir())
	cfg.MaxBytes = 16 << 10
	acked, seen := map[string]bool{}, map[string]bool{}
	committed := Position(0)
	for life := range 4 {
		d := loadDisk(t, cfg.Dir, rng, 1+rng.IntN(60))
		j := openTest(t, cfg, d)
		if damage := testutil.ToFloat64(j.metrics.corruptSegments); damage != 0 {
			t.Fatalf("seed %d: a power loss looks like damage", seed)
		}
		if s := j.Stats(); s.Committed < committed {
			t.Fatalf("seed %d: committed is %d, was %d", seed, s.Committed, committed)
		}
		for i := 0; !d.dead(); i++ {
			appendGroup(t, j, d, fmt.Sprintf("%d.%d", life, i), 1+rng.IntN(5), acked)
			if i > 50 {
				break
			}
			if rng.IntN(3) > 0 || d.dead() {
				continue
			}
			b, err := j.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !d.dead() { // downstream has them before the commit
				for _, r := range b.Records {
					seen[recordID(r)] = true
				}
			}
			if err := j.Commit(b.Last); err != nil {
				t.Fatal(err)
			}
			if !d.dead() {
				committed = b.Last
			}
		}
		closeTest(t, j)
		if d.lost != nil {
			cfg.Dir = t.TempDir()
			for name, b := range d.lost {
				if err := os.WriteFile(filepath.Join(cfg.Dir, name), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	j := openTest(t, cfg, osDisk{})
	rest, _ := drain(t, j)
	for _, r := range rest {
		seen[recordID([]byte(r))] = true
	}
	for id := range acked {
		if !seen[id] {
			t.Fatalf("seed %d: acknowledged record %s is lost", seed, id)
		}
	}
	if lost := testutil.ToFloat64(j.metrics.lostRecords); lost != 0 {
		t.Fatalf("seed %d: %v records counted as lost", seed, lost)
	}
	closeTest(t, j)
}

// appendGroup appends n records at once. Those acknowledged while there is power
// must survive.
func appendGroup(t *testing.T, j *Journal, d *volatileDisk, id string, n int, acked map[string]bool) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for k := range n {
		id := fmt.Sprintf("%s.%d", id, k)
		wg.Go(func() {
			if err := j.Append(t.Context(), []byte(id+"\n"+strings.Repeat("q", k*40))); err != nil {
				t.Error(err)
				return
			}
			if !d.dead() {
				mu.Lock()
				acked[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func recordID(record []byte) string {
	id, _, _ := strings.Cut(string(record), "\n")
	return id
}
