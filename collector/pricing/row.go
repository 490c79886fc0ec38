package pricing

import (
	"strconv"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// Row is one entry of the price book: what a model costs from a time on, for
// prompts above a size.
type Row struct {
	Provider string `json:"provider"` // descriptive: charges do not carry it
	Model    string `json:"model"`
	// ValidFrom is UTC; zero: since ever.
	ValidFrom time.Time `json:"valid_from,omitzero"`
	// AbovePromptTokens is the tier: the row holds for requests whose prompt is
	// larger. Zero is the lowest tier, which holds for every size.
	AbovePromptTokens uint64 `json:"above_prompt_tokens"`

	// Dollars per million tokens of a class.
	Input        NullRate `json:"input"`
	Output       NullRate `json:"output"`
	CacheWrite5m NullRate `json:"cache_write_5m"`
	CacheWrite1h NullRate `json:"cache_write_1h"`
	CacheRead    NullRate `json:"cache_read"`

	// Factors on all token rates; zero: not offered for this model.
	Batch       Factor `json:"batch"`
	USInference Factor `json:"us_inference"`
	Fast        Factor `json:"fast"`

	// WebSearch is dollars per thousand searches. Factors do not apply.
	WebSearch NullRate `json:"web_search_per_thousand"`

	// Source is the file and line of the row.
	Source string `json:"source"`
}

// ID names the row: model, then @valid_from if dated, then >threshold if it is
// a higher tier, such as "claude-sonnet-4@2026-01-01>200000". A corrected price
// keeps it.
func (r Row) ID() string {
	id := r.Model
	if !r.ValidFrom.IsZero() {
		id += "@" + formatTime(r.ValidFrom)
	}
	if r.AbovePromptTokens > 0 {
		id += ">" + strconv.FormatUint(r.AbovePromptTokens, 10)
	}
	return id
}

// Fingerprint is 48 bits, in hexadecimal, of everything in the row that makes
// dollars: it changes exactly when a charge of this row could.
func (r Row) Fingerprint() string {
	id := usage.Hash(
		"price row", r.Input.String(), r.Output.String(), r.CacheWrite5m.String(), r.CacheWrite1h.String(),
		r.CacheRead.String(), r.Batch.String(), r.USInference.String(), r.Fast.String(), r.WebSearch.String(),
	)
	return id.String()[:12]
}

// Ref is what a charge stores, ID#fingerprint: whether the row has changed
// since can be told from it alone, so that a correction can be replayed.
func (r Row) Ref() string { return r.ID() + "#" + r.Fingerprint() }

// dateLayout is how midnight UTC is written.
const dateLayout = "2006-01-02"

// ParseTime reads a date (midnight UTC) or an RFC 3339 time: the form of
// valid_from.
func ParseTime(s string) (time.Time, error) {
	if t, err := time.Parse(dateLayout, s); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	return t.UTC(), err
}

func formatTime(t time.Time) string {
	if t.Equal(t.Truncate(24 * time.Hour)) {
		return t.Format(dateLayout)
	}
	return t.Format(time.RFC3339Nano)
}
