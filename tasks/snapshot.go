package tasks

import (
	"hash/maphash"
	"iter"
	"maps"
	"time"
)

// shards is in how many parts a snapshot is copied: those without a change are
// shared with the one before.
const shards = 256

type shard struct{ tasks map[string]*Task }

// Snapshot is the totals of all tasks at one moment. It never changes, so any
// number of goroutines may use it.
type Snapshot struct {
	at, taken time.Time
	shards    [shards]*shard
	n         int
	seed      maphash.Seed
	dropped   *dropped
	replaced  chan struct{} // closed when there is a newer one
}

// At is the moment, by ClickHouse's clock: all that writers completed before it
// is included.
func (s *Snapshot) At() time.Time { return s.at }

// Taken is a moment shortly before At by the local clock, with a monotonic
// reading.
func (s *Snapshot) Taken() time.Time { return s.taken }

// Age is how long ago the snapshot was taken, whatever the clocks say.
func (s *Snapshot) Age() time.Duration { return time.Since(s.taken) }

// Len is how many tasks there are.
func (s *Snapshot) Len() int { return s.n }

// Task returns a task. One that the snapshot does not have either never spent
// or was dropped from memory: see [Watcher.Lookup].
func (s *Snapshot) Task(name string) (Task, bool) {
	if t := s.of(name).tasks[name]; t != nil {
		return *t, true
	}
	return Task{}, false
}

// All returns all tasks, in no order.
func (s *Snapshot) All() iter.Seq[Task] {
	return func(yield func(Task) bool) {
		for _, sh := range s.shards {
			for _, t := range sh.tasks {
				if !yield(*t) {
					return
				}
			}
		}
	}
}

// Changed returns the names of the tasks whose figures may differ from those of
// an older snapshot of the same watcher, those that only one of the two has
// included. Every task may differ from nil.
func (s *Snapshot) Changed(old *Snapshot) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i, sh := range s.shards {
			was := &shard{}
			if old != nil {
				was = old.shards[i]
			}
			if sh == was {
				continue
			}
			for name, t := range sh.tasks {
				if was.tasks[name] != t && !yield(name) {
					return
				}
			}
			for name := range was.tasks {
				if sh.tasks[name] == nil && !yield(name) {
					return
				}
			}
		}
	}
}

func (s *Snapshot) of(name string) *shard { return s.shards[s.index(name)] }

func (s *Snapshot) index(name string) uint64 { return maphash.String(s.seed, name) % shards }

func emptySnapshot(seed maphash.Seed, d *dropped) *Snapshot {
	s := &Snapshot{seed: seed, dropped: d}
	for i := range s.shards {
		s.shards[i] = &shard{}
	}
	return s
}

// with is a snapshot with other figures for some tasks; nil removes one.
func (s *Snapshot) with(at, taken time.Time, changed map[string]*Task) *Snapshot {
	next := *s
	next.at, next.taken, next.replaced = at, taken, make(chan struct{})
	for name, t := range changed {
		i := s.index(name)
		if next.shards[i] == s.shards[i] {
			next.shards[i] = &shard{maps.Clone(s.shards[i].tasks)}
			if next.shards[i].tasks == nil {
				next.shards[i].tasks = map[string]*Task{}
			}
		}
		tasks := next.shards[i].tasks
		next.n -= len(tasks)
		if t == nil {
			delete(tasks, name)
		} else {
			tasks[name] = t
		}
		next.n += len(tasks)
	}
	return &next
}
