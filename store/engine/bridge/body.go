package bridge

import (
	"bufio"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// requestBody undoes the body's compression: Content-Encoding, then
// ClickHouse's own blocks.
func requestBody(r *http.Request, decompress bool, body io.Reader) (io.Reader, error) {
	var err error
	switch coding := r.Header.Get("Content-Encoding"); coding {
	case "", "identity":
	case "gzip", "x-gzip":
		body, err = gzip.NewReader(body)
	case "deflate":
		body, err = zlib.NewReader(body)
	case "br":
		body = brotli.NewReader(body)
	case "zstd":
		var d *zstd.Decoder
		if d, err = zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20)); err == nil {
			body = d.IOReadCloser()
		}
	default:
		return nil, exceptionf(codeUnknownCompression, "Unknown compression method: %s", coding)
	}
	if errors.Is(err, io.EOF) { // an empty body is empty in every coding
		return http.NoBody, nil
	}
	if err != nil {
		return nil, exceptionf(codeCannotDecompress, "the body is not in the encoding it claims")
	}
	if decompress {
		body = newBlockReader(body)
	}
	return body, nil
}

// What is read of a body whose request has failed.
const (
	discardBytes = 1 << 30
	discardTime  = 10 * time.Second
)

// discard reads what is left of the body, so that a client that reads no
// answer before it has sent everything gets one. As in ClickHouse; a connection
// closed under such a client would be reset, and the reason lost.
func (x *execution) discard() {
	_ = x.out.ctl.SetReadDeadline(time.Now().Add(discardTime))
	_, _ = io.Copy(io.Discard, io.LimitReader(x.r.Body, discardBytes))
}

// blockReader reads ClickHouse's compressed blocks. The decoder reports the
// end of its input and a block that was cut off alike; here the first is
// io.EOF and the second is not.
type blockReader struct {
	source  *bufio.Reader
	decoder *compress.Reader
	taken   int // bytes that the decoder took since it last succeeded
}

func newBlockReader(r io.Reader) *blockReader {
	b := &blockReader{source: bufio.NewReaderSize(r, 64<<10)}
	b.decoder = compress.NewReader(readerFunc(func(p []byte) (int, error) {
		n, err := b.source.Read(p)
		b.taken += n
		return n, err
	}))
	return b
}

func (b *blockReader) Read(p []byte) (int, error) {
	b.taken = 0
	n, err := b.decoder.Read(p)
	switch {
	case err == nil:
		return n, nil
	case b.taken == 0 && errors.Is(err, io.EOF):
		return 0, io.EOF
	}
	return 0, exceptionf(codeCannotDecompress, "the body is not made of whole compressed blocks")
}

// boundary is the boundary of a multipart body, or "".
func boundary(r *http.Request) string {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return ""
	}
	return params["boundary"]
}
