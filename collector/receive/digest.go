package receive

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// digest computes what [usage.Hash] does, part by part, in a buffer that is
// used again: identities are a good part of what a call costs.
type digest struct{ buf []byte }

func (d *digest) text(parts ...string) {
	for _, p := range parts {
		d.buf = binary.AppendUvarint(d.buf, uint64(len(p)))
		d.buf = append(d.buf, p...)
	}
}

func (d *digest) numbers(parts ...uint64) {
	for _, p := range parts {
		at := len(d.buf)
		d.buf = append(d.buf, 0) // its length; 20 digits fit one byte
		d.buf = strconv.AppendUint(d.buf, p, 10)
		d.buf[at] = byte(len(d.buf) - at - 1)
	}
}

// content is the identity of everything that a call says.
func (d *digest) content(e *usage.Event) usage.ID {
	d.buf = d.buf[:0]
	l, t := &e.Labels, &e.Tokens
	d.text("call content", e.SourceID)
	d.numbers(uint64(e.Time.UnixMilli())) // after 1970: see Config.Earliest
	d.text(l.Project, l.Repo, l.Kind, l.Task, l.Issue, l.Run, l.Session, l.Model, l.Effort, l.Agent)
	d.numbers(t.Input, t.Output, t.CacheRead, t.CacheWrite, t.CacheWrite5m, t.CacheWrite1h, e.WebSearches)
	d.text(e.Speed, strconv.FormatBool(e.Batch), e.InferenceGeo)
	if e.Reported.Valid {
		d.numbers(uint64(e.Reported.Nano)) // never negative
	} else {
		d.text("")
	}
	d.numbers(uint64(e.Duration))
	sum := sha256.Sum256(d.buf)
	return usage.ID(sum[:16])
}
