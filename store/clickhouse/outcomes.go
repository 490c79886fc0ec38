package clickhouse

import (
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

func outcomeColumns() []column[usage.Outcome] {
	type o = usage.Outcome
	return []column[o]{
		id("id", func(r *o) usage.ID { return r.ID }),
		each("time", func(r *o) time.Time { return r.Time }),
		each("arrived", func(r *o) time.Time { return r.Arrived }),
		each("task", func(r *o) string { return r.Task }),
		each("outcome", func(r *o) string { return r.Outcome }),
		each("detail", func(r *o) string { return r.Detail }),
	}
}

func annotationColumns() []column[usage.Annotation] {
	type a = usage.Annotation
	return []column[a]{
		id("id", func(r *a) usage.ID { return r.ID }),
		each("time", func(r *a) time.Time { return r.Time }),
		each("arrived", func(r *a) time.Time { return r.Arrived }),
		each("project", func(r *a) string { return r.Project }),
		each("text", func(r *a) string { return r.Text }),
		each("tags", func(r *a) []string { return r.Tags }),
	}
}
