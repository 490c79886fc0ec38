package deliver

import (
	"container/list"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// queue holds what waits for one Alertmanager: for each set of labels the newest
// alert, in the place of the first. It is safe for concurrent use.
type queue struct {
	capacity int
	wake     chan struct{} // holds a value after an add
	length   prometheus.Gauge

	mu      sync.Mutex
	waiting *list.List // of Alert, the oldest first
	at      map[uint64]*list.Element
	closed  bool
}

func newQueue(capacity int, length prometheus.Gauge) *queue {
	return &queue{
		capacity: capacity, length: length, wake: make(chan struct{}, 1),
		waiting: list.New(), at: map[uint64]*list.Element{},
	}
}

// add puts alerts in. It says how many older ones it dropped for want of room,
// and how many it did not take because the queue is closed.
func (q *queue) add(alerts []Alert) (full, late int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0, len(alerts)
	}
	for _, a := range alerts {
		key := a.fingerprint()
		if e, ok := q.at[key]; ok {
			e.Value = a
			continue
		}
		if q.waiting.Len() >= q.capacity {
			q.pop()
			full++
		}
		q.at[key] = q.waiting.PushBack(a)
	}
	q.length.Set(float64(q.waiting.Len()))
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return full, 0
}

// take removes the oldest n alerts, or fewer.
func (q *queue) take(n int) []Alert {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make([]Alert, 0, min(n, q.waiting.Len()))
	for len(out) < cap(out) {
		out = append(out, q.pop())
	}
	q.length.Set(float64(q.waiting.Len()))
	return out
}

// putBack returns what was taken and not delivered to its place before the
// others, unless a newer state of it came meanwhile. It says how many had no
// room any more.
func (q *queue) putBack(alerts []Alert) (full int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range slices.Backward(alerts) {
		key := a.fingerprint()
		if _, ok := q.at[key]; ok {
			continue
		}
		if q.waiting.Len() >= q.capacity {
			full++
			continue
		}
		q.at[key] = q.waiting.PushFront(a)
	}
	q.length.Set(float64(q.waiting.Len()))
	return full
}

// close makes the queue take no more, and says how many alerts were left.
func (q *queue) close() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.waiting.Len()
	q.closed, q.at = true, nil
	q.waiting.Init()
	q.length.Set(0)
	return n
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.Len()
}

// pop removes the oldest of at least one alert; the lock is held.
func (q *queue) pop() Alert {
	a := q.waiting.Remove(q.waiting.Front()).(Alert)
	delete(q.at, a.fingerprint())
	return a
}
