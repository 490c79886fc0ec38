package tasks

import (
	"hash/maphash"
	"time"
)

// SnapshotOf is a snapshot of these tasks, taken now, for tests of what depends
// on snapshots. No watcher has it, so none replaces it.
func SnapshotOf(at time.Time, all ...Task) *Snapshot {
	return emptySnapshot(maphash.MakeSeed(), newDropped()).With(at, all...)
}

// With is a newer snapshot, taken now, with these tasks in the place of those of
// the same names; for tests, as [SnapshotOf].
func (s *Snapshot) With(at time.Time, changed ...Task) *Snapshot {
	by := make(map[string]*Task, len(changed))
	for _, t := range changed {
		by[t.Name] = &t
	}
	return s.with(at, time.Now(), by)
}
