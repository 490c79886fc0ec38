package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"time"
)

// Batch is a run of records with consecutive numbers.
type Batch struct {
	// Records in order of acknowledgement. They belong to the caller and share
	// one allocation.
	Records [][]byte
	// First and Last are the numbers of the first and last record. Pass Last to
	// Commit.
	First, Last Position
	// Oldest is the time of the first record's append.
	Oldest time.Time

	newest time.Time
}

// reader is the state of the consumer's side.
type reader struct {
	next   uint64 // number of the next record to hand out
	file   readFile
	index  uint64 // of the segment that file is
	off    int64  // in file, of a frame
	at     uint64 // the number expected there
	failed int    // read errors in a row
}

// readErrors is how often a failing read is reported to the caller, who backs
// off and calls again, before its segment is taken for unreadable. A bad sector
// must not hold up all records behind it for ever.
const readErrors = 3

func (r *reader) close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

// Next returns the next records, as many as are there within the limits of the
// configuration. It blocks until there is one, the context ends, or the journal
// is closed (ErrClosed). It goes on behind the last batch whether that was
// committed or not; after a restart it begins behind the last commit. Another
// error is a failed read: call again after a pause.
func (j *Journal) Next(ctx context.Context) (Batch, error) {
	j.readMu.Lock()
	defer j.readMu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			return Batch{}, err
		}
		select {
		case <-j.closing:
			return Batch{}, ErrClosed
		default:
		}
		s, ok := j.readable()
		if !ok {
			select {
			case <-j.grown:
			case <-j.closing:
			case <-ctx.Done():
			}
			continue
		}
		b, err := j.read(s)
		if err != nil {
			return Batch{}, err
		}
		if len(b.Records) > 0 {
			return b, nil
		}
	}
}

// readable returns a copy of the segment that holds the next record, as far as
// it is durable now. Without such a segment the records up to the next number
// are missing, which is impossible unless somebody removed the last file.
func (j *Journal) readable() (segment, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.reader.next >= j.next {
		return segment{}, false
	}
	for _, s := range j.segments {
		if s.end > j.reader.next {
			return *s, true
		}
	}
	return segment{base: j.next, end: j.next}, true
}

// read reads one batch from a segment. It returns none at the segment's end and
// after damage, with the reader moved on.
func (j *Journal) read(s segment) (Batch, error) {
	r := &j.reader
	if r.next < s.base {
		j.lose(s, r.next, s.base, "a segment is missing")
		return Batch{}, nil
	}
	if r.file == nil || r.index != s.index {
		if err := r.close(); err != nil {
			j.log.Warn("closing a segment that was read", slog.Any("error", err))
		}
		f, err := j.disk.Open(s.path)
		if err != nil {
			return Batch{}, j.readFailed(s, err)
		}
		r.file, r.index, r.off, r.at = f, s.index, 0, s.base
	}
	buf, err := r.fill(s, j.cfg.BatchBytes)
	if err != nil {
		return Batch{}, j.readFailed(s, err)
	}
	r.failed = 0
	b, bad := r.parse(s, buf, j.cfg.BatchRecords)
	if len(b.Records) > 0 {
		j.handOut(b)
		return b, nil // damage behind them is found again by the next read
	}
	if bad != nil {
		return Batch{}, j.skipDamage(s, bad)
	}
	return Batch{}, nil
}

// fill reads whole frames: limit bytes, or the one frame that is larger.
func (r *reader) fill(s segment, limit int) ([]byte, error) {
	buf, err := r.readAt(min(s.size-r.off, int64(limit)+headerBytes))
	if err != nil {
		return nil, err
	}
	h, ok := newCodec(s.salt).parseHeader(buf)
	if ok && h.frameBytes() > int64(len(buf)) && r.off+h.frameBytes() <= s.size {
		return r.readAt(h.frameBytes())
	}
	return buf, nil
}

// readAt reads n bytes, fewer if the file is shorter than it was.
func (r *reader) readAt(n int64) ([]byte, error) {
	buf := make([]byte, max(n, 0))
	got, err := r.file.ReadAt(buf, r.off)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return buf[:got], nil
}

// damage is a place that cannot be read.
type damage struct {
	reason string
	skip   int64 // bytes of the bad frame if its header holds, else 0
}

// parse takes the frames of buf, which begins at r.off, until one is bad or
// incomplete, and moves the reader behind them.
func (r *reader) parse(s segment, buf []byte, limit int) (Batch, *damage) {
	var b Batch
	c := newCodec(s.salt)
	start := r.off
	for r.at < s.end && len(b.Records) < limit {
		h, ok := c.parseHeader(buf)
		switch {
		case r.off > start && (len(buf) < headerBytes || ok && h.frameBytes() > int64(len(buf))):
			return b, nil // fill sees to it that the next call gets it whole, if it is
		case !ok || h.number != r.at:
			return b, &damage{reason: "a frame's header is damaged"}
		case h.frameBytes() > int64(len(buf)):
			return b, &damage{reason: "a frame is incomplete"}
		}
		payload := buf[headerBytes:h.frameBytes():h.frameBytes()]
		if c.sum(payload) != h.payload {
			return b, &damage{reason: "a payload is damaged", skip: h.frameBytes()}
		}
		if r.at >= r.next {
			if len(b.Records) == 0 {
				b.First, b.Oldest = Position(r.at), h.time()
			}
			b.Records = append(b.Records, payload)
			b.Last, b.newest = Position(r.at), h.time()
			r.next = r.at + 1
		}
		buf = buf[h.frameBytes():]
		r.off += h.frameBytes()
		r.at++
	}
	return b, nil
}

// readFailed passes a read error on, or gives the segment up.
func (j *Journal) readFailed(s segment, err error) error {
	j.metrics.diskErrors.WithLabelValues(opRead).Inc()
	if j.reader.failed++; j.reader.failed <= readErrors {
		return fmt.Errorf("reading segment %s: %w", filepath.Base(s.path), err)
	}
	j.reader.failed = 0
	j.log.Error("giving up on a segment", slog.Any("error", err))
	return j.giveUp(s, "the rest of a segment is unreadable")
}

// skipDamage sets the segment aside and moves the reader to the next frame that
// holds, or to the segment's end.
func (j *Journal) skipDamage(s segment, d *damage) error {
	r := &j.reader
	if d.skip > 0 {
		if err := j.setAsideNow(s); err != nil {
			return err
		}
		r.off += d.skip
		r.at++
		j.lose(s, r.at-1, r.at, d.reason)
		return nil
	}
	// Damage is rare, so the rest of the segment is simply read into memory.
	rest, err := r.readAt(s.size - r.off)
	if err != nil {
		return j.readFailed(s, err)
	}
	h, at, ok := newCodec(s.salt).findHeader(rest[min(1, len(rest)):], r.at, s.end)
	if !ok {
		return j.giveUp(s, d.reason)
	}
	if err := j.setAsideNow(s); err != nil {
		return err
	}
	from := r.at
	r.off += int64(at) + 1
	r.at = h.number
	j.lose(s, from, r.at, d.reason)
	return nil
}

// giveUp counts all that is left of a segment as lost and moves behind it.
func (j *Journal) giveUp(s segment, reason string) error {
	if err := j.setAsideNow(s); err != nil {
		return err
	}
	r := &j.reader
	from := max(r.next, s.base)
	r.off, r.at = s.size, s.end
	if r.index != s.index { // not even opened
		r.off = 0
	}
	j.lose(s, from, s.end, reason)
	return nil
}

// lose counts numbers that cannot be handed out. Those in front of the reader
// were committed: they are damaged, but not lost.
func (j *Journal) lose(s segment, from, to uint64, reason string) {
	from = max(from, j.reader.next)
	if from >= to {
		return
	}
	j.reader.next = to
	j.metrics.lostRecords.Add(float64(to - from))
	j.log.Error("acknowledged records cannot be read and are skipped",
		slog.String("reason", reason), slog.String("segment", filepath.Base(s.path)),
		slog.Uint64("first", from), slog.Uint64("last", to-1))
	j.mu.Lock()
	j.holes = append(j.holes, hole{from, to})
	j.mu.Unlock()
	// Nothing behind the hole may ever be committed, and it must not hold space.
	if err := j.release(); err != nil {
		j.log.Error("releasing damaged segments", slog.Any("error", err))
	}
}

// setAsideNow is setAside for the segment that s is a copy of.
func (j *Journal) setAsideNow(s segment) error {
	var live *segment
	j.mu.Lock()
	if i := slices.IndexFunc(j.segments, func(x *segment) bool { return x.index == s.index }); i >= 0 {
		live = j.segments[i]
	}
	j.mu.Unlock()
	if live == nil {
		return nil
	}
	return j.setAside(live)
}
