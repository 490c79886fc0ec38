package chdb

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// symbols are the functions of libchdb that we call, with C types spelled as
// Go ones: pointers are unsafe.Pointer, size_t is uint. Every function blocks
// its thread; none may be called for one connection from two threads at once.
type symbols struct {
	setSignalHandlersEnabled func(enabled int32)
	version                  func() string

	connect  func(argc int32, argv unsafe.Pointer) unsafe.Pointer
	close    func(conn unsafe.Pointer)
	classify func(conn, query unsafe.Pointer, queryLen uint, database unsafe.Pointer, databaseLen uint, out unsafe.Pointer) int32

	query       func(conn, query unsafe.Pointer, queryLen uint, format unsafe.Pointer, formatLen uint, names, nameLens, values, valueLens unsafe.Pointer, count uint) unsafe.Pointer
	streamQuery func(conn, query unsafe.Pointer, queryLen uint, format unsafe.Pointer, formatLen uint, names, nameLens, values, valueLens unsafe.Pointer, count uint) unsafe.Pointer
	fetch       func(conn, stream unsafe.Pointer) unsafe.Pointer
	cancel      func(conn, stream unsafe.Pointer)

	insert        func(conn, query unsafe.Pointer, queryLen uint, format unsafe.Pointer, formatLen uint, names, nameLens, values, valueLens unsafe.Pointer, count uint) unsafe.Pointer
	append        func(stream, data unsafe.Pointer, length uint) int32
	done          func(stream unsafe.Pointer) unsafe.Pointer
	cancelInsert  func(stream unsafe.Pointer)
	insertError   func(stream unsafe.Pointer) string
	destroyInsert func(stream unsafe.Pointer)

	resultBuffer       func(result unsafe.Pointer) unsafe.Pointer
	resultLength       func(result unsafe.Pointer) uint
	resultError        func(result unsafe.Pointer) string
	resultElapsed      func(result unsafe.Pointer) float64
	resultRows         func(result unsafe.Pointer) uint64
	resultBytes        func(result unsafe.Pointer) uint64
	resultRowsRead     func(result unsafe.Pointer) uint64
	resultBytesRead    func(result unsafe.Pointer) uint64
	resultRowsWritten  func(result unsafe.Pointer) uint64
	resultBytesWritten func(result unsafe.Pointer) uint64
	destroyResult      func(result unsafe.Pointer)
}

// load opens the library at path and binds its functions. A missing function
// means another version of the library and is an error.
func load(path string) (*symbols, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("loading the ClickHouse library: %w", err)
	}
	var s symbols
	for _, b := range []struct {
		name string
		fn   any
	}{
		{"chdb_set_signal_handlers_enabled", &s.setSignalHandlersEnabled},
		{"chdb_version", &s.version},
		{"chdb_connect", &s.connect},
		{"chdb_close_conn", &s.close},
		{"chdb_classify_query_n", &s.classify},
		{"chdb_query_with_params_n", &s.query},
		{"chdb_stream_query_with_params_n", &s.streamQuery},
		{"chdb_stream_fetch_result", &s.fetch},
		{"chdb_stream_cancel_query", &s.cancel},
		{"chdb_stream_insert_with_params_n", &s.insert},
		{"chdb_stream_append", &s.append},
		{"chdb_stream_done", &s.done},
		{"chdb_stream_cancel_insert", &s.cancelInsert},
		{"chdb_stream_insert_error", &s.insertError},
		{"chdb_destroy_insert_stream", &s.destroyInsert},
		{"chdb_result_buffer", &s.resultBuffer},
		{"chdb_result_length", &s.resultLength},
		{"chdb_result_error", &s.resultError},
		{"chdb_result_elapsed", &s.resultElapsed},
		{"chdb_result_rows_read", &s.resultRows},
		{"chdb_result_bytes_read", &s.resultBytes},
		{"chdb_result_storage_rows_read", &s.resultRowsRead},
		{"chdb_result_storage_bytes_read", &s.resultBytesRead},
		{"chdb_result_rows_written", &s.resultRowsWritten},
		{"chdb_result_bytes_written", &s.resultBytesWritten},
		{"chdb_destroy_query_result", &s.destroyResult},
	} {
		address, err := purego.Dlsym(handle, b.name)
		if err != nil {
			return nil, fmt.Errorf("binding %s: %w", b.name, err)
		}
		purego.RegisterFunc(b.fn, address)
	}
	return &s, nil
}

// cParams holds query parameters in the shape the C API wants: four parallel
// arrays. It must be kept alive during the call.
type cParams struct {
	names, values         []unsafe.Pointer
	nameLens, valueLens   []uint
	pinned                []string
	namePtr, nameLenPtr   unsafe.Pointer
	valuePtr, valueLenPtr unsafe.Pointer
}

func newCParams(params []Param) *cParams {
	p := &cParams{}
	for _, param := range params {
		p.pinned = append(p.pinned, param.Name, param.Value)
		p.names = append(p.names, stringPointer(param.Name))
		p.nameLens = append(p.nameLens, uint(len(param.Name)))
		p.values = append(p.values, stringPointer(param.Value))
		p.valueLens = append(p.valueLens, uint(len(param.Value)))
	}
	if len(params) > 0 {
		p.namePtr, p.nameLenPtr = unsafe.Pointer(&p.names[0]), unsafe.Pointer(&p.nameLens[0])
		p.valuePtr, p.valueLenPtr = unsafe.Pointer(&p.values[0]), unsafe.Pointer(&p.valueLens[0])
	}
	return p
}

// call runs one of the three functions that take a statement with parameters.
func (s *symbols) call(fn func(conn, query unsafe.Pointer, queryLen uint, format unsafe.Pointer, formatLen uint, names, nameLens, values, valueLens unsafe.Pointer, count uint) unsafe.Pointer, conn unsafe.Pointer, st Statement) unsafe.Pointer {
	p := newCParams(st.Params)
	result := fn(conn, stringPointer(st.SQL), uint(len(st.SQL)), stringPointer(st.Format), uint(len(st.Format)),
		p.namePtr, p.nameLenPtr, p.valuePtr, p.valueLenPtr, uint(len(st.Params)))
	runtime.KeepAlive(p)
	runtime.KeepAlive(st)
	return result
}

// stringPointer never returns nil: the C side builds std::string from it, for
// which a null pointer is undefined even with length 0.
func stringPointer(s string) unsafe.Pointer {
	if s == "" {
		return unsafe.Pointer(new(byte))
	}
	return unsafe.Pointer(unsafe.StringData(s))
}

// cStrings returns NUL-terminated copies of args and the array of pointers to
// them, as argv.
func cStrings(args []string) (argv []unsafe.Pointer) {
	for _, arg := range args {
		b := make([]byte, len(arg)+1)
		copy(b, arg)
		argv = append(argv, unsafe.Pointer(&b[0]))
	}
	return append(argv, nil)
}
