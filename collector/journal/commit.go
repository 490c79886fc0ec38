package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"
)

// writer is the state of the committer goroutine.
type writer struct {
	file    writeFile
	segment *segment // of file; nil: the next group starts a new one
	index   uint64   // of the last file created
	buf     []byte   // the frames of a group
	failing bool     // the last group failed; to log transitions only
}

// commitGroups is the committer: it takes what waits, writes it, syncs once and
// releases all. While it syncs the next group gathers, so no delay is added to
// form groups.
func (j *Journal) commitGroups() {
	defer close(j.stopped)
	var group []*request
	for {
		var bytes int64
		group, bytes = j.takeGroup(group[:0])
		if len(group) == 0 {
			j.closeFile()
			return
		}
		err := j.commitGroup(group, bytes)
		for _, r := range group {
			r.done <- err
		}
	}
}

// takeGroup waits for requests; it returns none when the journal is closed and
// all is written.
func (j *Journal) takeGroup(group []*request) ([]*request, int64) {
	for {
		j.mu.Lock()
		closed := j.closed
		var bytes int64
		n := 0
		for _, r := range j.queue {
			if n > 0 && bytes+r.frameBytes() > int64(j.cfg.GroupBytes) {
				break
			}
			r.taken = true
			bytes += r.frameBytes()
			group = append(group, r)
			n++
		}
		j.queue = slices.Delete(j.queue, 0, n)
		j.mu.Unlock()
		if n > 0 || closed {
			return group, bytes
		}
		<-j.wake
	}
}

// commitGroup makes a group durable. On failure the file is given up: after a
// failed fsync the kernel may have dropped the dirty pages and report success
// the next time, so no later success on that descriptor can be believed.
func (j *Journal) commitGroup(group []*request, bytes int64) error {
	op, err := j.writeGroup(group, bytes)
	if err != nil {
		j.metrics.diskErrors.WithLabelValues(op).Inc()
		if !j.writer.failing {
			j.log.Error("journal cannot store records, senders are refused until a write succeeds",
				slog.String("operation", op), slog.Any("error", err))
		}
		j.writer.failing = true
		j.abandon()
		j.mu.Lock()
		j.unreserve(bytes)
		j.mu.Unlock()
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	if j.writer.failing {
		j.writer.failing = false
		j.log.Info("journal stores records again")
	}
	j.metrics.groupRecords.Observe(float64(len(group)))

	j.mu.Lock()
	if j.next-1 == j.committed {
		j.oldest = group[0].at
	}
	j.next += uint64(len(group))
	j.writer.segment.end = j.next
	j.writer.segment.size += bytes
	j.bytes += bytes
	j.reserved -= bytes // moved to bytes: no room came
	j.mu.Unlock()
	signal(j.grown)
	return nil
}

func (j *Journal) writeGroup(group []*request, bytes int64) (op string, err error) {
	w := &j.writer
	j.mu.Lock()
	next, rotate := j.next, j.rotate
	j.rotate = false
	j.mu.Unlock()
	if w.segment != nil && (rotate || w.segment.size+bytes > j.cfg.SegmentBytes) {
		j.closeFile()
	}
	if w.segment == nil {
		if err := j.startSegment(next); err != nil {
			return opCreate, err
		}
	}
	c := newCodec(w.segment.salt)
	w.buf = w.buf[:0]
	for i, r := range group {
		w.buf = c.appendHeader(w.buf, header{
			length: uint32(len(r.record)), number: next + uint64(i), nanos: r.at.UnixNano(),
			durable: uint32(w.segment.size), payload: r.sum,
		})
		w.buf = append(w.buf, r.record...)
	}
	_, err = w.file.Write(w.buf)
	if cap(w.buf) > 2*j.cfg.GroupBytes {
		w.buf = nil // one huge record must not hold its memory for ever
	}
	if err != nil {
		return opWrite, fmt.Errorf("writing a segment: %w", err)
	}
	start := time.Now()
	if err := w.file.Sync(); err != nil {
		return opSync, fmt.Errorf("syncing a segment: %w", err)
	}
	j.metrics.fsyncDuration.Observe(time.Since(start).Seconds())
	return "", nil
}

// startSegment creates the next file. Its name is durable before any record in
// it is acknowledged.
func (j *Journal) startSegment(base uint64) error {
	w := &j.writer
	w.index++
	s := &segment{index: w.index, base: base, salt: rand.Uint32(), end: base}
	s.path = filepath.Join(j.cfg.Dir, segmentName(s.index, s.base, s.salt))
	file, err := j.disk.Create(s.path)
	if err != nil {
		return fmt.Errorf("creating a segment: %w", err)
	}
	w.file, w.segment = file, s
	j.mu.Lock()
	j.segments = append(j.segments, s)
	j.mu.Unlock()
	if err := j.disk.SyncDir(j.cfg.Dir); err != nil {
		return fmt.Errorf("syncing the folder of segments: %w", err)
	}
	return nil
}

// closeFile ends the active segment. All of it is synced already, so an error
// of close loses nothing.
func (j *Journal) closeFile() {
	w := &j.writer
	if w.file == nil {
		return
	}
	if err := w.file.Close(); err != nil {
		j.log.Warn("closing a synced segment", slog.Any("error", err))
	}
	j.mu.Lock()
	w.segment.sealed = true
	j.mu.Unlock()
	w.file, w.segment = nil, nil
}

// abandon gives up the active file after a failure. What it holds beyond its
// durable size was not acknowledged. Removing those bytes only saves space: the
// base of the next segment, which reuses their numbers, tells readers to stop.
func (j *Journal) abandon() {
	w := &j.writer
	if w.segment == nil {
		return
	}
	s := w.segment
	err := w.file.Close()
	w.file, w.segment = nil, nil
	j.mu.Lock()
	s.sealed = true
	path, corrupt, empty := s.path, s.corrupt, s.size == 0
	if empty {
		j.segments = slices.DeleteFunc(slices.Clone(j.segments), func(x *segment) bool { return x == s })
	}
	j.mu.Unlock()
	switch {
	case empty:
		err = errors.Join(err, j.disk.Remove(path))
	case !corrupt:
		err = errors.Join(err, j.disk.Truncate(path, s.size))
	}
	if err != nil {
		j.log.Warn("removing the bytes of a failed group, they are ignored", slog.Any("error", err))
	}
}
