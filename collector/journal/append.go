package journal

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// request is one record on its way to the disk.
type request struct {
	record []byte
	sum    uint32
	at     time.Time
	taken  bool // by the committer; guarded by Journal.mu
	done   chan error
}

func (r *request) frameBytes() int64 { return headerBytes + int64(len(r.record)) }

// Append stores a record and returns nil once it is durable. It blocks for an
// fsync, and for up to [Config.FullWait] when the journal is full. The record is
// not kept: the caller may reuse it when Append has returned, whatever it
// returned. The order of concurrent appends is undefined; an append that begins
// after another returned comes after it.
//
// Errors: [ErrTooLarge], [ErrFull], [ErrClosed]: not stored. [ErrDisk]: unknown.
// The context's error: not stored; once writing has begun the context no longer
// matters, and the outcome is returned.
func (j *Journal) Append(ctx context.Context, record []byte) error {
	if len(record) > j.cfg.MaxRecordBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(record), j.cfg.MaxRecordBytes)
	}
	start := time.Now()
	r := j.requests.Get().(*request)
	// The sum is computed here, by many callers at once, not by the committer.
	r.record, r.sum, r.at, r.taken = record, newCodec(0).sum(record), start, false
	err := j.enqueue(ctx, r)
	if err == nil {
		err = j.await(ctx, r)
	}
	r.record = nil
	j.requests.Put(r)
	if err == nil {
		j.metrics.appendDuration.Observe(time.Since(start).Seconds())
	}
	return err
}

// enqueue admits a request, waiting for room if there is none.
func (j *Journal) enqueue(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var timeout <-chan time.Time
	for {
		room, err := j.tryEnqueue(r)
		if room == nil {
			return err
		}
		if timeout == nil {
			t := time.NewTimer(j.cfg.FullWait)
			defer t.Stop()
			timeout = t.C
		}
		select {
		case <-room:
		case <-timeout:
			j.metrics.full.Inc()
			return ErrFull
		case <-j.closing:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryEnqueue queues a request, or returns a channel that is closed when there
// may be room.
func (j *Journal) tryEnqueue(r *request) (room <-chan struct{}, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, ErrClosed
	}
	// What is admitted counts at once, so that the bound is passed by at most
	// one record however many callers wait.
	if j.bytes+j.reserved >= j.cfg.MaxBytes {
		return j.room, nil
	}
	j.reserved += r.frameBytes()
	j.queue = append(j.queue, r)
	signal(j.wake)
	return nil, nil
}

// await waits for the outcome. The record belongs to the committer once taken,
// so a cancelled caller may leave only while its request is still queued.
func (j *Journal) await(ctx context.Context, r *request) error {
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
	}
	j.mu.Lock()
	if r.taken {
		j.mu.Unlock()
		return <-r.done
	}
	if i := slices.Index(j.queue, r); i >= 0 {
		j.queue = slices.Delete(j.queue, i, i+1)
	}
	j.unreserve(r.frameBytes())
	j.mu.Unlock()
	return ctx.Err()
}

// unreserve gives admitted bytes back and wakes who waits for room. The caller
// holds mu.
func (j *Journal) unreserve(n int64) {
	j.reserved -= n
	j.announceRoom()
}

func (j *Journal) announceRoom() {
	close(j.room)
	j.room = make(chan struct{})
}
