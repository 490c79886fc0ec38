package bridge

import (
	"bufio"
	"compress/gzip"
	"compress/zlib"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/szymonrychu/tatara-ledger/store/engine/chdb"
)

// response writes one result: it chooses the coding, and delays status and
// headers until the first byte, so that an early error still gets its status.
type response struct {
	w       http.ResponseWriter
	ctl     *http.ResponseController
	timeout time.Duration
	query   *query
	accept  string
	started bool
	out     io.Writer   // where the result's bytes go
	closers []io.Closer // from the outermost coding to the innermost
	bytes   int64
	tag     string // frames an exception behind a part of the result
}

// Write is the innermost step: bytes to the client, with a deadline so that a
// client that stopped reading does not hold its place for ever.
func (o *response) Write(p []byte) (int, error) {
	_ = o.ctl.SetWriteDeadline(time.Now().Add(o.timeout))
	n, err := o.w.Write(p)
	o.bytes += int64(n)
	return n, err
}

// start sends the headers of a result and builds its coding.
func (o *response) start(format string, stats chdb.Stats) error {
	o.started = true
	h := o.w.Header()
	h.Set("Content-Type", contentType(format))
	h.Set("X-ClickHouse-Format", format)
	o.tag = strings.ToLower(rand.Text()[:16])
	h.Set("X-ClickHouse-Exception-Tag", o.tag)
	setSummary(h, stats)
	o.out = io.Writer(o)
	if coding, level := o.coding(); coding != "" {
		h.Set("Content-Encoding", coding)
		h.Add("Vary", "Accept-Encoding")
		encoder, err := encode(o.out, coding, level)
		if err != nil {
			return err
		}
		o.push(encoder)
	}
	if o.query.compress {
		o.push(newBlockWriter(o.out, o.query))
	}
	if format == "Native" && o.query.revision > 0 {
		buffered := bufio.NewWriterSize(o.out, 64<<10)
		o.push(flushCloser{buffered})
		reframer := newReframer(buffered, o.query.revision)
		o.out, o.closers = reframer, append([]io.Closer{reframer}, o.closers...)
	}
	return nil
}

func (o *response) push(w io.WriteCloser) {
	o.out, o.closers = w, append([]io.Closer{w}, o.closers...)
}

// finish ends every coding.
func (o *response) finish() error {
	for _, c := range o.closers {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}

// abort writes text behind what was sent of the result, past the reframer
// that may be in the middle of a block, and flushes it.
func (o *response) abort(text string) {
	if len(o.closers) > 0 {
		if _, ok := o.closers[0].(*reframer); ok {
			o.closers = o.closers[1:]
		}
	}
	inner := io.Writer(o)
	if len(o.closers) > 0 {
		if w, ok := o.closers[0].(io.Writer); ok {
			inner = w
		}
	}
	_, _ = io.WriteString(inner, text)
	_ = o.finish()
	_ = o.ctl.Flush()
}

// coding is the HTTP coding of the result, "" for none.
func (o *response) coding() (coding string, level int) {
	if !o.query.httpCoding || o.query.compress {
		return "", 0
	}
	level, err := strconv.Atoi(o.query.setting("http_zlib_compression_level"))
	if err != nil || level < 1 || level > 9 {
		level = 3 // ClickHouse's default
	}
	for _, candidate := range []string{"br", "gzip", "deflate", "zstd"} { // in ClickHouse's order
		for item := range strings.SplitSeq(o.accept, ",") {
			name, q, _ := strings.Cut(strings.TrimSpace(item), ";")
			if strings.TrimSpace(name) == candidate && strings.ReplaceAll(q, " ", "") != "q=0" {
				return candidate, level
			}
		}
	}
	return "", 0
}

func encode(w io.Writer, coding string, level int) (io.WriteCloser, error) {
	switch coding {
	case "br":
		return brotli.NewWriterLevel(w, level), nil
	case "deflate":
		return zlib.NewWriterLevel(w, level)
	case "zstd":
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	}
	return gzip.NewWriterLevel(w, level)
}

type flushCloser struct{ *bufio.Writer }

func (f flushCloser) Close() error { return f.Flush() }

// blockWriter writes ClickHouse's compressed blocks.
type blockWriter struct {
	w          io.Writer
	compressor *compress.Writer
	pending    []byte
}

// blockSize is ClickHouse's max_compress_block_size.
const blockSize = 1 << 20

func newBlockWriter(w io.Writer, q *query) *blockWriter {
	method, level := compress.LZ4, compress.LevelZero
	if strings.EqualFold(q.setting("network_compression_method"), "zstd") {
		method = compress.ZSTD
		if n, err := strconv.Atoi(q.setting("network_zstd_compression_level")); err == nil && n > 0 && n < 20 {
			level = compress.Level(n)
		}
	}
	return &blockWriter{w: w, compressor: compress.NewWriter(level, method)}
}

func (b *blockWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		take := min(len(p), blockSize-len(b.pending))
		b.pending = append(b.pending, p[:take]...)
		p = p[take:]
		if len(b.pending) == blockSize {
			if err := b.Close(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

// Close writes what is pending.
func (b *blockWriter) Close() error {
	if len(b.pending) == 0 {
		return nil
	}
	if err := b.compressor.Compress(b.pending); err != nil {
		return err
	}
	b.pending = b.pending[:0]
	_, err := b.w.Write(b.compressor.Data)
	return err
}

// setSummary writes X-ClickHouse-Summary; numbers are strings there.
func setSummary(h http.Header, s chdb.Stats) {
	u := func(n uint64) string { return strconv.FormatUint(n, 10) }
	b, err := json.Marshal(map[string]string{
		"read_rows": u(s.ReadRows), "read_bytes": u(s.ReadBytes),
		"written_rows": u(s.WrittenRows), "written_bytes": u(s.WrittenBytes),
		"result_rows": u(s.ResultRows), "result_bytes": u(s.ResultBytes),
		"total_rows_to_read": "0", "elapsed_ns": strconv.FormatInt(s.Elapsed.Nanoseconds(), 10),
	})
	if err == nil {
		h.Set("X-ClickHouse-Summary", string(b))
	}
}

func contentType(format string) string {
	switch {
	case strings.HasPrefix(format, "JSONEachRow"), strings.HasPrefix(format, "JSONCompactEachRow"), strings.HasPrefix(format, "JSONStringsEachRow"):
		return "application/x-ndjson; charset=UTF-8"
	case strings.HasPrefix(format, "JSON"):
		return "application/json; charset=UTF-8"
	case strings.HasPrefix(format, "TabSeparated"), strings.HasPrefix(format, "TSV"):
		return "text/tab-separated-values; charset=UTF-8"
	case strings.HasPrefix(format, "CSV"):
		return "text/csv; charset=UTF-8; header=" + map[bool]string{true: "present", false: "absent"}[strings.Contains(format, "WithNames")]
	case format == "XML":
		return "application/xml; charset=UTF-8"
	case format == "Native", format == "Parquet", strings.HasPrefix(format, "Arrow"), strings.HasPrefix(format, "RowBinary"), format == "ORC", format == "Avro":
		return "application/octet-stream"
	}
	return "text/plain; charset=UTF-8"
}
