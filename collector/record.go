package collector

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/fxamacker/cbor/v2"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

// Codec is the form of facts in the journal: CBOR with numbered keys, so that a
// journal written by one version is read by the next. It is safe for
// concurrent use.
type Codec struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

// NewCodec returns a codec.
func NewCodec() (*Codec, error) {
	// Text is the only form of a time that keeps its milliseconds exact:
	// CBOR's numeric times are binary fractions.
	enc, err := cbor.EncOptions{Time: cbor.TimeRFC3339Nano}.EncMode()
	if err != nil {
		return nil, fmt.Errorf("preparing the journal's encoder: %w", err)
	}
	dec, err := cbor.DecOptions{MaxArrayElements: 1 << 24}.DecMode()
	if err != nil {
		return nil, fmt.Errorf("preparing the journal's decoder: %w", err)
	}
	return &Codec{enc, dec}, nil
}

// Encode encodes facts as one record.
func (c *Codec) Encode(f *usage.Facts) ([]byte, error) { return c.enc.Marshal(f) }

// Decode decodes a record into f, which must be zero.
func (c *Codec) Decode(raw []byte, f *usage.Facts) error { return c.dec.Unmarshal(raw, f) }

// Aside keeps records that the ledger refuses, one file each, so that nothing
// that was acknowledged is lost.
type Aside struct{ dir string }

// NewAside keeps records in dir, which is created when it is needed.
func NewAside(dir string) *Aside { return &Aside{dir} }

// Keep stores a record durably and returns its file.
func (a *Aside) Keep(raw []byte) (path string, err error) {
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return "", fmt.Errorf("making the folder of records set aside: %w", err)
	}
	f, err := os.CreateTemp(a.dir, time.Now().UTC().Format("20060102T150405Z")+"-*.cbor")
	if err != nil {
		return "", fmt.Errorf("setting a record aside: %w", err)
	}
	_, err = f.Write(raw)
	err = errors.Join(err, f.Sync(), f.Close())
	if dir, e := os.Open(a.dir); e != nil {
		err = errors.Join(err, e)
	} else {
		err = errors.Join(err, dir.Sync(), dir.Close()) // the file's name must last too
	}
	return filepath.Clean(f.Name()), err
}

// isRefusal reports whether ClickHouse will never take the rows, whatever its
// state: their values, not the server, are at fault. Everything else is worth
// another attempt.
func isRefusal(err error) bool {
	var e *clickhouse.Exception
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case 6, 27, 32, 33, 38, 41, 53, 69, 70, 72, 117, 131, 321, 349:
		// Codes of parsing and conversion: CANNOT_PARSE_*, CANNOT_READ_ALL_DATA,
		// TYPE_MISMATCH, ARGUMENT_OUT_OF_BOUND, CANNOT_CONVERT_TYPE,
		// INCORRECT_DATA, TOO_LARGE_STRING_SIZE, VALUE_IS_OUT_OF_RANGE,
		// CANNOT_INSERT_NULL.
		return true
	}
	return false
}
