package journal

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Journal is the durable queue. Open makes one; its methods may be called
// concurrently, but only one consumer gets each record.
type Journal struct {
	cfg     Config
	log     *slog.Logger
	disk    disk
	metrics *metrics

	wake    chan struct{} // to the committer: the queue grew, or closing
	grown   chan struct{} // to the consumer: records became durable
	closing chan struct{} // closed by Close
	stopped chan struct{} // closed when the committer has ended

	requests sync.Pool // of *request

	mu       sync.Mutex // guards what follows; never held over disk operations
	closed   bool
	queue    []*request
	reserved int64         // bytes of frames admitted but not yet written or failed
	bytes    int64         // sum of the sizes of segments
	room     chan struct{} // closed and replaced when bytes or reserved shrink
	segments []*segment    // undrained, in order; the last may be the active one
	next     uint64        // number of the next record
	rotate   bool          // start a new segment with the next group

	committed uint64
	delivered uint64    // last number handed out
	batches   []handed  // handed out, not committed, in order
	holes     []hole    // unreadable numbers beyond committed, in order
	oldest    time.Time // append time of the oldest pending record, if known

	releaseMu sync.Mutex // one release at a time
	stored    uint64     // position on disk; guarded by releaseMu

	readMu sync.Mutex // guards reader: one consumer
	reader reader
	held   *os.File // the lock of the folder; guarded by readMu

	writer writer // of the committer goroutine only
}

// handed is a batch that was handed out.
type handed struct {
	last          uint64
	first, newest time.Time
}

// hole is a range [from, to) of numbers that cannot be read.
type hole struct{ from, to uint64 }

// Open recovers the journal in cfg.Dir, creating it if absent, and starts its
// committer. It registers its metrics on reg; one registry cannot serve two
// journals. The caller must call Close.
func Open(cfg Config, log *slog.Logger, reg prometheus.Registerer) (*Journal, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	held, err := lock(cfg.Dir)
	if err != nil {
		return nil, err
	}
	j, err := open(cfg, log, reg, osDisk{})
	if err != nil {
		return nil, errors.Join(err, held.Close())
	}
	j.held = held
	return j, nil
}

func open(cfg Config, log *slog.Logger, reg prometheus.Registerer, d disk) (*Journal, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	j := &Journal{
		cfg: cfg, log: log, disk: d,
		wake:    make(chan struct{}, 1),
		grown:   make(chan struct{}, 1),
		closing: make(chan struct{}),
		stopped: make(chan struct{}),
		room:    make(chan struct{}),
	}
	j.requests.New = func() any { return &request{done: make(chan error, 1)} }
	j.metrics = newMetrics()
	if err := j.restore(); err != nil {
		return nil, err
	}
	if err := j.metrics.register(reg, j.Stats); err != nil {
		return nil, err
	}
	go j.commitGroups()
	return j, nil
}

// Close refuses new appends, makes those already queued durable, and stops. A
// blocked Next, and appends that wait for room, return ErrClosed. Commit first:
// what is not committed is handed out again after the next Open. A second Close
// does nothing. Close does not unregister the metrics.
func (j *Journal) Close() error {
	j.mu.Lock()
	if !j.closed {
		j.closed = true
		close(j.closing)
		signal(j.wake)
	}
	j.mu.Unlock()
	<-j.stopped

	j.readMu.Lock()
	defer j.readMu.Unlock()
	err := j.reader.close()
	if j.held != nil {
		err = errors.Join(err, j.held.Close())
		j.held = nil
	}
	return err
}

// Stats is a snapshot of the journal.
type Stats struct {
	// Bytes of segments that are not drained, and the bound on them.
	Bytes, CapacityBytes int64
	// PendingRecords are acknowledged and not committed.
	PendingRecords int64
	// Segments is the number of files that hold them.
	Segments int
	// Last is the newest acknowledged record, Committed the newest committed one.
	Last, Committed Position
	// OldestAge is the age of the oldest pending record. It is exact while a
	// batch is handed out, close otherwise, and 0 after a start until the first
	// Next.
	OldestAge time.Duration
}

// Stats never blocks on the disk.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := Stats{
		Bytes: j.bytes, CapacityBytes: j.cfg.MaxBytes,
		PendingRecords: int64(j.next - 1 - j.committed),
		Segments:       len(j.segments),
		Last:           Position(j.next - 1), Committed: Position(j.committed),
	}
	if s.PendingRecords > 0 && !j.oldest.IsZero() {
		s.OldestAge = time.Since(j.oldest)
	}
	return s
}

// signal leaves a token in a channel of capacity one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
