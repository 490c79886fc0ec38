package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// restore reads the folder and leaves the journal as the last process left it,
// without the torn tail of a crash. Only the last segment is read, the others
// are checked as they are handed out: a start takes no longer with a backlog.
func (j *Journal) restore() error {
	dir := j.cfg.Dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating the folder of the journal: %w", err)
	}
	if err := j.disk.SyncDir(filepath.Dir(dir)); err != nil {
		return fmt.Errorf("syncing the folder above the journal: %w", err)
	}
	segments, err := listSegments(j.disk, dir)
	if err != nil {
		return err
	}
	committed, err := readPosition(j.disk, dir)
	if errors.Is(err, errNoPosition) {
		if len(segments) > 0 {
			committed = Position(segments[0].base - 1)
			j.log.Warn("no committed position, all stored records are handed out again", slog.Any("error", err))
		}
	} else if err != nil {
		return err
	}
	if n := len(segments); n > 0 {
		j.writer.index = segments[n-1].index
	}
	j.committed, j.delivered, j.stored = uint64(committed), uint64(committed), uint64(committed)
	j.reader.next = j.committed + 1

	segments, err = j.recoverTail(segments)
	if err != nil {
		return err
	}
	if err := j.keepUndrained(segments); err != nil {
		return err
	}
	if n := len(j.segments); n > 0 {
		signal(j.grown)
	}
	return nil
}

// recoverTail repairs the last segment, determines the next record's number,
// and returns the segments that remain. A last segment without any record is
// dropped and the one before it becomes the last: its writer may have failed and
// left bytes that nothing acknowledged.
func (j *Journal) recoverTail(segments []*segment) ([]*segment, error) {
	// Records below floor are known to have been durable, whatever the tail says.
	floor := j.committed + 1
	for len(segments) > 0 {
		s := segments[len(segments)-1]
		next, err := j.repair(s, floor)
		if err != nil {
			return nil, err
		}
		floor = max(floor, next)
		if s.size > 0 {
			break
		}
		if err := j.disk.Remove(s.path); err != nil {
			return nil, fmt.Errorf("removing an empty segment: %w", err)
		}
		segments = segments[:len(segments)-1]
	}
	j.next = floor
	return segments, nil
}

// repair checks a last segment, cuts a torn tail, sets the segment aside if
// anything else is wrong, makes what is left durable (the last process may have
// died between write and fsync), and returns the number after its last record.
func (j *Journal) repair(s *segment, floor uint64) (uint64, error) {
	data, err := readSegment(j.disk, s)
	if err != nil {
		return 0, err
	}
	t := scanTail(newCodec(s.salt), data, s.base)
	good := int64(t.good)
	damaged := t.damaged || (good < s.size && t.next < floor)
	switch {
	case s.corrupt: // as it is for ever
	case damaged:
		j.log.Error("a segment is damaged before its end",
			slog.String("segment", filepath.Base(s.path)), slog.Int64("offset", good))
		if err := j.setAside(s); err != nil {
			return 0, err
		}
	case good < s.size:
		j.metrics.repaired.Inc()
		j.log.Warn("cutting a torn tail, none of it was acknowledged",
			slog.String("segment", filepath.Base(s.path)),
			slog.Int64("offset", good), slog.Int64("bytes", s.size-good))
		s.size = good
	}
	if !s.corrupt {
		if err := j.disk.Truncate(s.path, s.size); err != nil {
			return 0, fmt.Errorf("cutting and syncing the last segment: %w", err)
		}
	}
	return t.next, nil
}

// tail is what a scan of a last segment found.
type tail struct {
	good    int    // offset after the last record of an unbroken sequence
	next    uint64 // number after the last complete record, broken sequence or not
	damaged bool   // something before good's end had been acknowledged
}

// scanTail walks the frames of a segment. At the first bad one it looks for
// later frames: any of them that says it was written when the bad place was
// already durable proves damage, not a torn write.
func scanTail(c codec, data []byte, base uint64) tail {
	t := tail{next: base}
	for {
		h, ok := c.completeFrame(data[t.good:])
		if !ok || h.number != t.next {
			break
		}
		t.good += int(h.frameBytes())
		t.next++
	}
	first, next := t.next, t.next
	for off := t.good; off < len(data); {
		rest := data[off:]
		// No more numbers can follow than frames fit.
		h, at, ok := c.findHeader(rest, first, first+uint64(len(data)/headerBytes)+1)
		if !ok {
			break
		}
		off += at
		if int64(h.durable) > int64(t.good) && int(h.durable) <= off {
			t.damaged = true
		}
		if _, ok := c.completeFrame(data[off:]); ok {
			next = max(next, h.number+1)
			off += int(h.frameBytes())
		} else {
			off += headerBytes
		}
	}
	if t.damaged {
		t.next = next
	}
	return t
}

// completeFrame reports whether b begins with a frame whose header and payload
// hold.
func (c codec) completeFrame(b []byte) (header, bool) {
	h, ok := c.parseHeader(b)
	if !ok || h.frameBytes() > int64(len(b)) {
		return h, false
	}
	return h, c.sum(b[headerBytes:h.frameBytes()]) == h.payload
}

// keepUndrained fills j.segments with those that hold records after the
// committed one, and removes the others: a crash came before their removal, or
// their writer failed. Files set aside are never removed.
func (j *Journal) keepUndrained(segments []*segment) error {
	end := j.next
	for i := len(segments) - 1; i >= 0; i-- {
		segments[i].end, end = end, segments[i].base
	}
	for _, s := range segments {
		if s.end > j.committed+1 && s.end > s.base {
			s.sealed = true
			j.segments = append(j.segments, s)
			j.bytes += s.size
			continue
		}
		if s.corrupt {
			continue
		}
		if err := j.disk.Remove(s.path); err != nil {
			return fmt.Errorf("removing a drained segment: %w", err)
		}
	}
	if err := j.disk.SyncDir(j.cfg.Dir); err != nil {
		return fmt.Errorf("syncing the folder of segments: %w", err)
	}
	return nil
}
