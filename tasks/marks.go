package tasks

import (
	"time"

	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
)

const (
	// overlap is how far back marks are read again: what the clocks of a
	// cluster may differ by, and what an insert of marks may take. A mark that
	// took longer is noticed when a closer gets to it, or if it was seen open.
	overlap = 30 * time.Second
	// rememberFor is how long a mark that was seen is remembered at least. It
	// changes twice more, for the last time when its hour is closed; if it has
	// been forgotten by then, its bucket is read once more for nothing.
	rememberFor = 90 * time.Minute
	// rememberMarks bounds how many are remembered, about 30 MB.
	rememberMarks = 500_000
	// peekEvery is how often a bucket that has left the window is read while a
	// mark of it is open, which a writer that died leaves open for minutes.
	peekEvery = 10 * time.Second
)

type markKey struct {
	bucket int64
	mark   uint64
}

// marks tells which buckets must be read again.
type marks struct {
	open      map[markKey]time.Time // when its bucket was last due, by the server's clock
	done, old map[markKey]struct{}  // two generations
	turned    time.Time             // when the younger one began
}

func newMarks() *marks {
	return &marks{open: map[markKey]time.Time{}, done: map[markKey]struct{}{}}
}

// note takes what was read of the marks and returns the buckets whose sums must
// be read after that. Buckets of open marks are due again and again: their
// charges become visible before the mark is completed. news says whether any
// mark was opened or completed since the last call.
func (m *marks) note(read clickhouse.TaskMarks, split int64) (due []int64, news bool) {
	now := read.Now
	if now.Sub(m.turned) > rememberFor || len(m.done) > rememberMarks {
		m.old, m.done, m.turned = m.done, map[markKey]struct{}{}, now
	}
	open := make(map[markKey]time.Time, len(m.open))
	for _, r := range read.Marks {
		key := markKey{r.Bucket.Unix(), r.Mark}
		if r.Open {
			last, seen := m.open[key]
			if !seen || key.bucket >= split || now.Sub(last) >= peekEvery {
				due, last = append(due, key.bucket), now
			}
			open[key], news = last, news || !seen
			continue
		}
		_, young := m.done[key]
		_, old := m.old[key]
		m.done[key] = struct{}{}
		if !young && !old {
			due, news = append(due, key.bucket), true
		}
		delete(m.open, key)
	}
	for key := range m.open {
		if _, still := open[key]; !still { // completed under an old date
			due, news = append(due, key.bucket), true
			m.done[key] = struct{}{}
		}
	}
	m.open = open
	return due, news
}
