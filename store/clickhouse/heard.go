package clickhouse

import (
	"slices"
	"sync"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// source is one of the things whose silence should be visible.
type source struct {
	feed    usage.Feed
	project string
}

type heard struct {
	source
	first, last time.Time
}

// heardOf is when the sources of facts spoke. Whether a fact is a duplicate
// does not matter: it was heard.
func heardOf(f *usage.Facts) []heard {
	at := map[source]int{}
	var out []heard
	add := func(feed usage.Feed, project string, t time.Time) {
		src := source{feed, project}
		i, ok := at[src]
		if !ok {
			i = len(out)
			at[src] = i
			out = append(out, heard{src, t, t})
		}
		if t.Before(out[i].first) {
			out[i].first = t
		}
		if t.After(out[i].last) {
			out[i].last = t
		}
	}
	for i := range f.Events {
		add(f.Events[i].Feed, f.Events[i].Labels.Project, f.Events[i].Arrived)
	}
	for i := range f.Samples {
		add(usage.FeedPush, projectOf(&f.Samples[i]), f.Samples[i].Arrived)
	}
	return out
}

// projectOf is the project that a sample names; a wrapper names none before
// its first turn ends.
func projectOf(s *usage.Sample) string {
	for _, t := range s.Counters.Tokens {
		if t.Labels.Project != "" {
			return t.Labels.Project
		}
	}
	return ""
}

// heardEvery is how exact the last time is that a source was heard: every
// insert is a part to sync and merge, so it is not written more often.
const heardEvery = 10 * time.Second

// lastHeard remembers what was written of each source.
type lastHeard struct {
	mu sync.Mutex
	at map[source]heard
}

// due returns those of the sources that are worth writing.
func (l *lastHeard) due(all []heard) []heard {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(all, func(h heard) bool {
		old, known := l.at[h.source]
		return known && !h.first.Before(old.first) && h.last.Before(old.last.Add(heardEvery))
	})
}

// wrote remembers sources that were written.
func (l *lastHeard) wrote(all []heard) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at == nil || len(l.at) > 10_000 { // projects are open strings
		l.at = map[source]heard{}
	}
	for _, h := range all {
		if old, known := l.at[h.source]; known {
			if old.first.Before(h.first) {
				h.first = old.first
			}
			if old.last.After(h.last) {
				h.last = old.last
			}
		}
		l.at[h.source] = h
	}
}

func heardColumns() []column[heard] {
	return []column[heard]{
		each("feed", func(r *heard) string { return string(r.feed) }),
		each("project", func(r *heard) string { return r.project }),
		each("first", func(r *heard) time.Time { return r.first }),
		each("last", func(r *heard) time.Time { return r.last }),
	}
}
