package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// Commit says that all records up to p are durable downstream. The position is
// stored, then whole segments before it are removed. It is idempotent, and p may
// lie within a batch. A position beyond what was handed out is ErrPosition. After
// another error the records may be handed out again by the next process; a later
// Commit makes up for it.
func (j *Journal) Commit(p Position) error {
	j.mu.Lock()
	switch n := uint64(p); {
	case j.closed:
		j.mu.Unlock()
		return ErrClosed
	case n > j.delivered:
		j.mu.Unlock()
		return fmt.Errorf("%w: %d", ErrPosition, p)
	case n > j.committed:
		j.committed = n
		for len(j.batches) > 0 && j.batches[0].last <= n {
			j.oldest = j.batches[0].newest
			j.batches = j.batches[1:]
		}
		if len(j.batches) > 0 {
			j.oldest = j.batches[0].first
		}
	}
	j.mu.Unlock()
	return j.release()
}

// handOut notes that a batch is with the consumer.
func (j *Journal) handOut(b Batch) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.delivered = uint64(b.Last)
	if len(j.batches) == 0 {
		j.oldest = b.Oldest
	}
	j.batches = append(j.batches, handed{last: j.delivered, first: b.Oldest, newest: b.newest})
}

// release stores the committed position and removes the segments before it. The
// position comes first: the other way round a crash between the two would make
// the removed records look lost.
func (j *Journal) release() error {
	j.releaseMu.Lock()
	defer j.releaseMu.Unlock()
	j.mu.Lock()
	for len(j.holes) > 0 && j.holes[0].from <= j.committed+1 {
		j.committed = max(j.committed, j.holes[0].to-1)
		j.holes = j.holes[1:]
	}
	committed := j.committed
	j.mu.Unlock()
	if committed == j.stored {
		return nil
	}
	if err := writePosition(j.disk, j.cfg.Dir, Position(committed)); err != nil {
		j.metrics.diskErrors.WithLabelValues(opRelease).Inc()
		return err
	}
	j.stored = committed

	var errs []error
	for _, s := range j.detachDrained(committed) {
		if s.corrupt {
			continue
		}
		if err := j.disk.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("removing a drained segment: %w", err))
		}
	}
	if len(errs) > 0 {
		j.metrics.diskErrors.WithLabelValues(opRelease).Inc()
	}
	return errors.Join(errs...)
}

// detachDrained takes drained segments off the list. The one that is written to
// stays.
func (j *Journal) detachDrained(committed uint64) []*segment {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for n < len(j.segments) && j.segments[n].sealed && j.segments[n].end <= committed+1 {
		j.bytes -= j.segments[n].size
		n++
	}
	drained := j.segments[:n:n]
	j.segments = append([]*segment(nil), j.segments[n:]...)
	if n > 0 {
		j.announceRoom()
	}
	return drained
}

// setAside renames a damaged segment. It stays in the log, because what is
// readable of it is still handed out, but it is never cut or removed.
func (j *Journal) setAside(s *segment) error {
	j.mu.Lock()
	path := s.path
	done := s.corrupt
	j.mu.Unlock()
	if done {
		return nil
	}
	err := j.disk.Rename(path, path+corruptSuffix)
	if err == nil {
		err = j.disk.SyncDir(j.cfg.Dir)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("setting a damaged segment aside: %w", err)
	}
	j.mu.Lock()
	s.corrupt = true
	if err == nil {
		s.path = path + corruptSuffix
	}
	// The active segment is not written to any longer once it is damaged.
	j.rotate = true
	j.mu.Unlock()
	j.metrics.corruptSegments.Inc()
	j.log.Error("a damaged segment is set aside, its bytes are kept for inspection",
		slog.String("segment", filepath.Base(path)+corruptSuffix))
	return nil
}
