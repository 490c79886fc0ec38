package clickhouse

import (
	"context"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// LabelValue is a value that a label was seen with.
type LabelValue struct{ Label, Value string }

// LabelValues returns the values that were admitted.
func (s *Store) LabelValues(ctx context.Context) ([]LabelValue, error) {
	var out []LabelValue
	err := s.query(ctx, "label values", "SELECT DISTINCT label, value FROM label_values", nil, func(rows driver.Rows) error {
		var v LabelValue
		err := rows.Scan(&v.Label, &v.Value)
		out = append(out, v)
		return err
	})
	return out, err
}

// AddLabelValues admits values; doing it twice changes nothing.
func (s *Store) AddLabelValues(ctx context.Context, values []LabelValue) error {
	return insert(ctx, s, "label_values", []column[LabelValue]{
		each("label", func(v *LabelValue) string { return v.Label }),
		each("value", func(v *LabelValue) string { return v.Value }),
	}, values)
}
