package collector

import (
	"context"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// counterCache remembers the counters of samples, so that each push of a run
// does not read and decode all pushes before it. What a sample's identity
// stands for never changes, and which samples a run has is always asked of the
// store: the cache saves work and decides nothing. One goroutine owns it.
type counterCache struct {
	counters map[usage.ID]usage.Counters
	series   int // of all counters
	limit    int // of series
}

// cachedSeries bounds the cache: about 150 MB. A fleet of 500 pods with ten
// series each fills it in an hour.
const cachedSeries = 1_000_000

func newCounterCache() *counterCache {
	return &counterCache{counters: map[usage.ID]usage.Counters{}, limit: cachedSeries}
}

// add remembers samples that are stored. A full cache starts anew: what is
// still needed comes back at the next read.
func (c *counterCache) add(samples []usage.Sample) {
	for i := range samples {
		c.put(samples[i].ID, samples[i].Counters)
	}
}

func (c *counterCache) put(id usage.ID, counters usage.Counters) {
	if _, known := c.counters[id]; known {
		return
	}
	n := 1 + len(counters.Tokens) + len(counters.Costs) + len(counters.Turns) + len(counters.Tools)
	if c.series+n > c.limit {
		clear(c.counters)
		c.series = 0
	}
	c.counters[id] = counters
	c.series += n
}

// samples returns the stored samples of those of the runs that have any.
func (c *counterCache) samples(ctx context.Context, ledger Ledger, runs []string) (map[string][]usage.Sample, error) {
	heads, err := ledger.SampleHeads(ctx, runs)
	if err != nil {
		return nil, err
	}
	read := map[usage.ID]usage.Counters{}
	var unknown []usage.Sample
	for i := range heads {
		if counters, ok := c.counters[heads[i].ID]; ok {
			read[heads[i].ID] = counters
		} else {
			unknown = append(unknown, heads[i])
		}
	}
	err = ledger.Counters(ctx, unknown, func(id usage.ID, counters usage.Counters) {
		read[id] = counters
		c.put(id, counters)
	})
	if err != nil {
		return nil, err
	}
	out := map[string][]usage.Sample{}
	for _, s := range heads {
		s.Counters = read[s.ID]
		out[s.Run] = append(out[s.Run], s)
	}
	return out, nil
}
