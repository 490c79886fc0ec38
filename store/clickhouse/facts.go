package clickhouse

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// AppendFacts stores facts and when their sources were heard. Storing the
// same fact again changes nothing. batch names this insert, so that
// [Store.Conflicts] finds it.
func (s *Store) AppendFacts(ctx context.Context, batch uint64, f *usage.Facts) error {
	samples, err := encodeSamples(f.Samples)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return insertBlocks(gctx, s, "events", eventColumns(batch), f.Events, func(e *usage.Event) time.Time { return e.Time })
	})
	g.Go(func() error { return insert(gctx, s, "samples", sampleColumns(), samples) })
	g.Go(func() error { return insert(gctx, s, "links", linkColumns(), f.Links) })
	g.Go(func() error { return insert(gctx, s, "ends", endColumns(), f.Ends) })
	g.Go(func() error { return insert(gctx, s, "outcome_facts", outcomeColumns(), f.Outcomes) })
	g.Go(func() error { return insert(gctx, s, "annotation_facts", annotationColumns(), f.Annotations) })
	g.Go(func() error {
		due := s.heard.due(heardOf(f))
		if err := insert(gctx, s, "heard", heardColumns(), due); err != nil {
			return err
		}
		s.heard.wrote(due)
		return nil
	})
	return g.Wait()
}

func eventColumns(batch uint64) []column[usage.Event] {
	type e = usage.Event
	return []column[e]{
		id("id", func(r *e) usage.ID { return r.ID }),
		id("content", func(r *e) usage.ID { return r.Content }),
		each("source_id", func(r *e) string { return r.SourceID }),
		each("feed", func(r *e) string { return string(r.Feed) }),
		each("time", func(r *e) time.Time { return r.Time }),
		each("arrived", func(r *e) time.Time { return r.Arrived }),
		each("project", func(r *e) string { return r.Labels.Project }),
		each("repo", func(r *e) string { return r.Labels.Repo }),
		each("kind", func(r *e) string { return r.Labels.Kind }),
		each("task", func(r *e) string { return r.Labels.Task }),
		each("issue", func(r *e) string { return r.Labels.Issue }),
		each("run", func(r *e) string { return r.Labels.Run }),
		each("session", func(r *e) string { return r.Labels.Session }),
		each("model", func(r *e) string { return r.Labels.Model }),
		each("effort", func(r *e) string { return r.Labels.Effort }),
		each("agent", func(r *e) string { return r.Labels.Agent }),
		each("input_tokens", func(r *e) uint64 { return r.Tokens.Input }),
		each("output_tokens", func(r *e) uint64 { return r.Tokens.Output }),
		each("cache_read_tokens", func(r *e) uint64 { return r.Tokens.CacheRead }),
		each("cache_write_tokens", func(r *e) uint64 { return r.Tokens.CacheWrite }),
		each("cache_write_5m_tokens", func(r *e) uint64 { return r.Tokens.CacheWrite5m }),
		each("cache_write_1h_tokens", func(r *e) uint64 { return r.Tokens.CacheWrite1h }),
		each("web_searches", func(r *e) uint64 { return r.WebSearches }),
		each("speed", func(r *e) string { return r.Speed }),
		each("batch", func(r *e) bool { return r.Batch }),
		each("inference_geo", func(r *e) string { return r.InferenceGeo }),
		money("reported_nano", func(r *e) usage.NullNano { return r.Reported }),
		each("duration_ms", func(r *e) uint64 { return uint64(r.Duration.Milliseconds()) }),
		constant[e]("batch_id", batch),
	}
}

// storedSample is a sample as it is stored: its counters as text, since only
// Go derives from them.
type storedSample struct {
	usage.Sample
	counters string
}

func encodeSamples(samples []usage.Sample) ([]storedSample, error) {
	out := make([]storedSample, len(samples))
	for i, s := range samples {
		text, err := json.Marshal(s.Counters)
		if err != nil {
			return nil, fmt.Errorf("encoding the counters of run %s: %w", s.Run, err)
		}
		out[i] = storedSample{s, string(text)}
	}
	return out, nil
}

func sampleColumns() []column[storedSample] {
	type s = storedSample
	return []column[s]{
		each("run", func(r *s) string { return r.Run }),
		id("id", func(r *s) usage.ID { return r.ID }),
		each("pod", func(r *s) string { return r.Pod }),
		each("arrived", func(r *s) time.Time { return r.Arrived }),
		each("pushes", func(r *s) uint64 { return r.Pushes }),
		each("counters", func(r *s) string { return r.counters }),
	}
}

func linkColumns() []column[usage.Link] {
	type l = usage.Link
	return []column[l]{
		each("run", func(r *l) string { return r.Run }),
		each("pod", func(r *l) string { return r.Pod }),
		each("task", func(r *l) string { return r.Task }),
		each("session", func(r *l) string { return r.Session }),
		each("issue", func(r *l) string { return r.Issue }),
		each("handoff_key", func(r *l) string { return r.HandoffKey }),
		each("kind", func(r *l) string { return r.Kind }),
		each("repo", func(r *l) string { return r.Repo }),
		each("project", func(r *l) string { return r.Project }),
		each("effort", func(r *l) string { return r.Effort }),
		each("arrived", func(r *l) time.Time { return r.Arrived }),
	}
}

func endColumns() []column[usage.End] {
	type e = usage.End
	return []column[e]{
		each("run", func(r *e) string { return r.Run }),
		each("pod", func(r *e) string { return r.Pod }),
		each("arrived", func(r *e) time.Time { return r.Arrived }),
	}
}
