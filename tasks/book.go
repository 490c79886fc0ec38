package tasks

import (
	"cmp"
	"slices"
	"time"
)

// entry is one task. One that took turns and spent nothing has no figures yet.
type entry struct {
	name   string
	pieces []placed // the earlier first
}

// placed is a piece and its segment.
type placed struct {
	segment
	*piece
}

// spent are the first and the latest piece with spend, nil if there is none.
func (e *entry) spent() (first, latest *piece) {
	for i := range e.pieces {
		if p := e.pieces[i].piece; p.spent {
			if first == nil {
				first = p
			}
			latest = p
		}
	}
	return first, latest
}

// last is the last bucket with spend; of a task that spent nothing, with turns.
func (e *entry) last() int64 {
	if _, latest := e.spent(); latest != nil {
		return latest.last
	}
	return e.pieces[len(e.pieces)-1].last
}

// find is where the piece of a segment is, or belongs. A day's piece comes
// before those of its buckets, which are all later.
func (e *entry) find(s segment) (int, bool) {
	return slices.BinarySearchFunc(e.pieces, s, func(p placed, s segment) int {
		switch {
		case p.segment == s:
			return 0
		case p.start < s.start || p.start == s.start && p.day:
			return -1
		}
		return 1
	})
}

// book is every task by the pieces that make up its total.
type book struct {
	*reader
	// split is the first bucket that is a segment by itself.
	split    int64
	entries  map[string]*entry
	segments map[segment]map[*entry]struct{} // who has a piece in it
	// changed are tasks whose figures may differ from those last computed; one
	// without pieces is gone.
	changed map[string]*entry
}

func newBook(canonical func(string) string, split int64) *book {
	return &book{
		reader: newReader(canonical), split: split,
		entries: map[string]*entry{}, segments: map[segment]map[*entry]struct{}{}, changed: map[string]*entry{},
	}
}

// segmentOf is the segment that a bucket belongs to.
func (b *book) segmentOf(bucket int64) segment {
	if bucket >= b.split {
		return segment{start: bucket}
	}
	return dayOf(bucket)
}

// put sets a task's piece of a segment.
func (b *book) put(task string, seg segment, p *piece) *entry {
	e := b.entries[task]
	if e == nil {
		e = &entry{name: task}
		b.entries[task] = e
	}
	if i, found := e.find(seg); !found || !e.pieces[i].equal(p) {
		b.place(e, seg, p)
		b.changed[e.name] = e
	}
	return e
}

func (b *book) place(e *entry, seg segment, p *piece) {
	i, found := e.find(seg)
	if found {
		e.pieces[i].piece = p
		return
	}
	e.pieces = slices.Insert(e.pieces, i, placed{seg, p})
	in := b.segments[seg]
	if in == nil {
		in = map[*entry]struct{}{}
		b.segments[seg] = in
	}
	in[e] = struct{}{}
}

// take removes a task's piece of a segment; it must have one.
func (b *book) take(e *entry, seg segment) *piece {
	i, _ := e.find(seg)
	p := e.pieces[i].piece
	e.pieces = slices.Delete(e.pieces, i, i+1)
	delete(b.segments[seg], e)
	if len(b.segments[seg]) == 0 {
		delete(b.segments, seg)
	}
	return p
}

// keepOnly removes from a segment the pieces of all tasks but those in kept.
func (b *book) keepOnly(seg segment, kept map[*entry]struct{}) {
	for e := range b.segments[seg] {
		if _, ok := kept[e]; ok {
			continue
		}
		b.take(e, seg)
		b.changed[e.name] = e
		if len(e.pieces) == 0 {
			delete(b.entries, e.name)
		}
	}
}

// advance folds buckets before split into their days. No total changes, and no
// hour: the window is longer.
func (b *book) advance(split int64) {
	if split <= b.split {
		return
	}
	b.split = split
	var over []segment
	for seg := range b.segments {
		if !seg.day && seg.start < split {
			over = append(over, seg)
		}
	}
	slices.SortFunc(over, func(x, y segment) int { return cmp.Compare(x.start, y.start) })
	for _, seg := range over {
		for e := range b.segments[seg] {
			into, p := dayOf(seg.start), b.take(e, seg)
			if i, found := e.find(into); found {
				p = e.pieces[i].plus(p)
			}
			b.place(e, into, p)
		}
	}
}

// roll marks the tasks as changed whose hour may differ because time went on
// from one bucket to another.
func (b *book) roll(from, to int64) {
	for seg, in := range b.segments {
		if !seg.day && seg.start >= hourFrom(min(from, to)) && seg.start <= max(from, to) {
			for e := range in {
				b.changed[e.name] = e
			}
		}
	}
}

// forget removes a task.
func (b *book) forget(e *entry) {
	for len(e.pieces) > 0 {
		b.take(e, e.pieces[len(e.pieces)-1].segment)
	}
	delete(b.entries, e.name)
	b.changed[e.name] = e
}

// hourFrom is the first bucket of the hour that ends with the current one.
func hourFrom(current int64) int64 { return current - int64(hour/time.Second) }
