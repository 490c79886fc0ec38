package bridge

import (
	"slices"
	"strconv"
	"strings"

	"github.com/szymonrychu/tatara-ledger/store/engine/chdb"
)

// How the restricted account is held to the published views:
//
//  1. The engine's parser must classify the text as one read-only statement.
//  2. The connection gives up the owner role, so that the engine itself
//     refuses every table, dictionary, source and table function for which the
//     published role has no grant, however the statement reaches it.
//  3. readonly=1 and the limits are set on the connection.
//  4. What the engine's grants leave open (system tables, and functions that
//     read files or only burn time) is decided here, from the engine's own
//     parse of the statement (EXPLAIN AST), by allow-list.

// systemTables are those that a datasource reads to list databases, tables,
// columns, functions and types; the engine shows in them only what is granted.
var systemTables = []string{
	"tables", "columns", "databases", "functions", "one", "data_type_families",
	"table_functions", "table_engines", "formats", "time_zones", "settings",
	"aggregate_function_combinators", "keywords", "completions",
}

// statements are the kinds of statement (roots of the parse) that may run.
var statements = []string{
	"SelectWithUnionQuery", "SelectQuery", "SelectIntersectExceptQuery", "DescribeQuery",
	"ShowTables", "ShowColumns", "ExistsTableQuery", "ExistsViewQuery", "ExistsDatabaseQuery",
}

// tableFunctions may be used in FROM: those that make a handful of given rows.
var tableFunctions = []string{"values", "null"}

// deniedFunctions read files, reveal the machine, reach out, or only burn time.
var deniedFunctions = []string{
	"file", "sleep", "sleepeachrow", "catboostevaluate", "joinget", "joingetornull",
	"hascolumnintable", "showcertificate", "getclienthttpheader", "getmacro", "getosskernelversion",
	"filesystemavailable", "filesystemcapacity", "filesystemunreserved", "serveruuid", "tcpport",
	"getserverport", "getserversetting", "getmergetreesetting", "fqdn", "fullhostname", "buildid",
	"zookeepersessionuptime", "generateserialid", "structuretocapnprotoschema", "structuretoprotobufschema",
	"addresstoline", "addresstolinewithinlines", "addresstosymbol", "demangle", "stacktrace", "logtrace",
	"errorcodetoname", "transactionid", "transactionlatestsnapshot", "transactionoldestsnapshot",
	"readwkbfile", "naivebayesclassifier", "evalmlmethod", "remotesecure", "connectionid",
}

// deniedPrefixes are families of functions that reach out or read dictionaries.
var deniedPrefixes = []string{"dict", "ai", "llm", "crash", "fuzz"}

func isSystemDatabase(name string) bool { return strings.EqualFold(name, "system") }

// guard refuses a statement that the restricted account may not run. The
// connection must still have the owner role.
func (b *builtins) guard(conn *chdb.Conn, sql string, params []chdb.Param) error {
	a, err := conn.Classify(sql)
	if err != nil {
		return err
	}
	switch {
	case a.Class == chdb.Unknown:
		return parseFailure(conn, sql, params)
	case a.Statements != 1:
		return exceptionf(codeSyntax, "Syntax error: multi-statements are not allowed")
	case a.Class != chdb.ReadOnly:
		return exceptionf(codeReadonly, "this account may only read")
	}
	tree, _, err := conn.Exec(chdb.Statement{SQL: "EXPLAIN AST " + sql, Format: "TSVRaw", Params: params})
	if err != nil {
		return err
	}
	return b.checkTree(string(tree))
}

// parseFailure lets the engine say what is wrong with the text.
func parseFailure(conn *chdb.Conn, sql string, params []chdb.Param) error {
	if _, _, err := conn.Exec(chdb.Statement{SQL: "EXPLAIN AST " + sql, Format: "Null", Params: params}); err != nil {
		return err
	}
	return exceptionf(codeAccessDenied, "this account may not run this kind of statement")
}

// checkTree reads the engine's parse: a node a line, indented by its depth,
// its kind first, then its name. A name with line ends in it can only add
// lines, each of which is checked like any other.
func (b *builtins) checkTree(tree string) error {
	lines := strings.Split(strings.TrimSuffix(tree, "\n"), "\n")
	if len(lines) == 0 {
		return exceptionf(codeAccessDenied, "this account may not run this kind of statement")
	}
	if kind, _, _ := strings.Cut(lines[0], " "); !slices.Contains(statements, kind) {
		return exceptionf(codeAccessDenied, "this account may not run %s", kind)
	}
	inTable := -1 // the depth of the table expression that the next line belongs to
	for _, line := range lines {
		node := strings.TrimLeft(line, " ")
		depth := len(line) - len(node)
		kind, name, _ := strings.Cut(node, " ")
		if err := b.checkNode(kind, nodeName(name), depth == inTable+1 && inTable >= 0); err != nil {
			return err
		}
		inTable = -1
		if kind == "TableExpression" {
			inTable = depth
		}
	}
	return nil
}

// nodeName drops "(alias x)" and "(children 2)" from the end.
func nodeName(s string) string {
	if at := strings.LastIndex(s, " (children "); at >= 0 {
		s = s[:at]
	} else if strings.HasPrefix(s, "(children ") {
		return ""
	}
	if at := strings.Index(s, " (alias "); at >= 0 {
		s = s[:at]
	}
	return s
}

func (b *builtins) checkNode(kind, name string, isSource bool) error {
	switch kind {
	case "TableIdentifier", "Identifier":
		// A table can hide in an identifier: x IN system.users.
		if database, rest, ok := strings.Cut(name, "."); ok && isSystemDatabase(database) {
			table, _, _ := strings.Cut(rest, ".")
			if !slices.Contains(systemTables, table) {
				return exceptionf(codeAccessDenied, "this account may not read %s.%s", database, table)
			}
		}
	case "Function":
		lower := strings.ToLower(name)
		if isSource {
			if !slices.Contains(tableFunctions, lower) {
				return exceptionf(codeAccessDenied, "this account may not use the table function %s", name)
			}
			return nil
		}
		if slices.Contains(deniedFunctions, lower) || slices.ContainsFunc(deniedPrefixes, func(p string) bool { return strings.HasPrefix(lower, p) }) {
			return exceptionf(codeAccessDenied, "this account may not use the function %s", name)
		}
		if !b.has(name) { // a user's function can hide any other
			return exceptionf(codeAccessDenied, "this account may not use the function %s, which is not built in", name)
		}
	case "Explain", "InsertQuery":
		return exceptionf(codeAccessDenied, "this account may not run %s", kind)
	}
	return nil
}

// capped are the limits of the restricted account that a client may lower.
func (l Limits) capped() []chdb.Setting {
	seconds := max(1, int64(l.ExecutionTime.Seconds()))
	return []chdb.Setting{
		{Name: "max_execution_time", Value: strconv.FormatInt(seconds, 10)},
		{Name: "max_memory_usage", Value: strconv.FormatUint(l.MemoryBytes, 10)},
		{Name: "max_result_rows", Value: strconv.FormatUint(l.ResultRows, 10)},
		{Name: "max_result_bytes", Value: strconv.FormatUint(l.ResultBytes, 10)},
		{Name: "max_rows_to_read", Value: strconv.FormatUint(l.ReadRows, 10)},
		{Name: "max_threads", Value: strconv.FormatUint(l.Threads, 10)},
	}
}

// harmless are the settings that the restricted account may choose freely.
var harmless = []string{
	"session_timezone", "log_comment", "join_use_nulls", "extremes", "result_overflow_mode", "timeout_overflow_mode",
	"date_time_output_format", "enable_http_compression", "http_zlib_compression_level", "network_compression_method",
	"network_zstd_compression_level", "send_progress_in_http_headers", "http_headers_progress_interval_ms",
	"prefer_column_name_to_alias", "final", "max_block_size", "add_http_cors_header",
	"connect_timeout", "receive_timeout", "send_timeout", "async_insert", "wait_for_async_insert",
}

// restrictedSettings are the settings of a restricted connection: the client's
// own where they are harmless or lower a limit, and the limits.
func (l Limits) restrictedSettings(asked []chdb.Setting) ([]chdb.Setting, error) {
	limits := l.capped()
	var out []chdb.Setting
	for _, s := range asked {
		at := slices.IndexFunc(limits, func(limit chdb.Setting) bool { return limit.Name == s.Name })
		switch {
		case at >= 0:
			lowered, err := lower(limits[at], s.Value)
			if err != nil {
				return nil, err
			}
			limits[at].Value = lowered
		case s.Name == "readonly" && (s.Value == "1" || s.Value == "2"):
		case slices.Contains(harmless, s.Name), strings.HasPrefix(s.Name, "output_format_"):
			out = append(out, s)
		default:
			return nil, exceptionf(codeReadonly, "Cannot modify '%s' setting in readonly mode", s.Name)
		}
	}
	out = append(out, limits...)
	return append(out, chdb.Setting{Name: "readonly", Value: "1"}), nil
}

// lower is the value asked for if it is within the limit. A longer execution
// time is cut to the limit: clients derive it from their own deadline.
func lower(limit chdb.Setting, asked string) (string, error) {
	allowed, _ := strconv.ParseUint(limit.Value, 10, 64)
	n, err := strconv.ParseFloat(asked, 64)
	if err == nil && n > 0 && n <= float64(allowed) {
		return asked, nil
	}
	if limit.Name == "max_execution_time" && err == nil {
		return limit.Value, nil
	}
	return "", exceptionf(codeConstraint, "Setting %s shouldn't be greater than %s", limit.Name, limit.Value)
}
