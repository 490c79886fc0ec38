package clickhouse

import (
	"context"
	"time"
)

// HealthSample is the value of one series of one replica at one time.
type HealthSample struct {
	Time     time.Time
	Instance string
	Name     string
	Labels   map[string]string
	Value    float64
	// Increase is how much a counter rose since it was stored last; nil: it is a
	// gauge.
	Increase *float64
}

// AppendHealth stores samples, all or none. They are not synced to disk, and
// samples that are stored again count again.
func (s *Store) AppendHealth(ctx context.Context, samples []HealthSample) error {
	type h = HealthSample
	return insert(ctx, s, "health_samples", []column[h]{
		each("time", func(r *h) time.Time { return r.Time }),
		each("instance", func(r *h) string { return r.Instance }),
		each("name", func(r *h) string { return r.Name }),
		each("labels", func(r *h) map[string]string { return r.Labels }),
		each("value", func(r *h) float64 { return r.Value }),
		each("increase", func(r *h) *float64 { return r.Increase }),
	}, samples)
}
