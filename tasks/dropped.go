package tasks

import (
	"hash/maphash"
	"sync"
)

// dropped are the tasks that are not in memory though the ledger has them, as
// hashes: about 20 bytes each. None is ever removed: that a task is in memory
// counts for more, and of two names with one hash the other may still be out.
type dropped struct {
	seed   maphash.Seed
	mu     sync.RWMutex
	hashes map[uint64]struct{}
}

func newDropped() *dropped {
	return &dropped{seed: maphash.MakeSeed(), hashes: map[uint64]struct{}{}}
}

func (d *dropped) add(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hashes[maphash.String(d.seed, name)] = struct{}{}
}

func (d *dropped) has(name string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	_, ok := d.hashes[maphash.String(d.seed, name)]
	return ok
}
