package bridge

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/szymonrychu/tatara-ledger/store/engine/chdb"
)

// query is what a request asks for, apart from its statement's text.
type query struct {
	id         string
	restricted bool
	readonly   bool
	database   string
	text       string // the query parameter
	format     string // of the result, unless the statement says otherwise
	chosen     bool   // whether the client named format
	revision   int    // client_protocol_version
	compress   bool   // result in ClickHouse's block compression
	decompress bool   // body in it
	httpCoding bool   // enable_http_compression
	buffered   bool   // wait_end_of_query
	settings   []chdb.Setting
	params     []chdb.Param
	externals  url.Values // name_structure, name_format, name_types
}

// setting is the value that the client gave a setting, or "".
func (q *query) setting(name string) string {
	for _, s := range q.settings {
		if s.Name == name {
			return s.Value
		}
	}
	return ""
}

// parseQuery reads the URL and the headers.
func parseQuery(r *http.Request, id string, restricted bool) (*query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, exceptionf(codeBadArguments, "the URL's query is malformed")
	}
	q := &query{id: id, restricted: restricted, readonly: r.Method != http.MethodPost, format: "TabSeparated", externals: url.Values{}}
	if f := r.Header.Get("X-ClickHouse-Format"); f != "" {
		q.format, q.chosen = f, true
	}
	q.database = r.Header.Get("X-ClickHouse-Database")
	multipart := strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data")
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		// The last one wins, as a later SET would.
		if err := q.take(name, values[name][len(values[name])-1], multipart); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// take stores one parameter of the URL.
func (q *query) take(name, value string, multipart bool) error {
	on := value != "0" && value != "false" && value != ""
	switch name {
	case "query":
		q.text = value
	case "database":
		if value != "" {
			q.database = value
		}
	case "default_format":
		if value != "" {
			q.format, q.chosen = value, true
		}
	case "client_protocol_version":
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return exceptionf(codeBadArguments, "client_protocol_version is not a number")
		}
		q.revision = n
	case "compress":
		q.compress = on
	case "decompress":
		q.decompress = on
	case "wait_end_of_query":
		q.buffered = on
	case "enable_http_compression":
		q.httpCoding = on
	case "session_id":
		if value != "" {
			return exceptionf(codeNotImplemented, "sessions (session_id) are not supported by the embedded engine")
		}
	case "role":
		return exceptionf(codeNotImplemented, "roles are not supported by the embedded engine")
	case "user", "password", "query_id", "quota_key", "stacktrace", "buffer_size", "session_timeout", "session_check", "close_session":
	default:
		return q.takeOther(name, value, multipart)
	}
	return nil
}

// takeOther stores a query parameter, a property of an external table or a setting.
func (q *query) takeOther(name, value string, multipart bool) error {
	if param, ok := strings.CutPrefix(name, "param_"); ok {
		q.params = append(q.params, chdb.Param{Name: param, Value: value})
		return nil
	}
	if multipart && (strings.HasSuffix(name, "_structure") || strings.HasSuffix(name, "_format") || strings.HasSuffix(name, "_types")) {
		q.externals.Set(name, value)
		return nil
	}
	if !isSettingName(name) {
		return exceptionf(codeBadArguments, "parameter %q is not the name of a setting", name)
	}
	q.settings = append(q.settings, chdb.Setting{Name: name, Value: value})
	return nil
}

// isSettingName keeps anything but a plain word out of the SET statement.
func isSettingName(s string) bool {
	for i := range len(s) {
		if !isWordByte(s[i]) || s[i] >= 0x80 || s[i] == '$' {
			return false
		}
	}
	return s != "" && (s[0] < '0' || s[0] > '9')
}
