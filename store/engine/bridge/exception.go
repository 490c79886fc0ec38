package bridge

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/szymonrychu/tatara-ledger/store/engine/chdb"
)

// ClickHouse's error codes that the bridge itself raises.
const (
	codeBadArguments       = 36
	codeNotImplemented     = 48
	codeSyntax             = 62
	codeTimeout            = 159
	codeReadonly           = 164
	codeTooManyQueries     = 202
	codeNetwork            = 210
	codeCannotDecompress   = 271
	codeCancelled          = 394
	codeConstraint         = 452
	codeAccessDenied       = 497
	codeAuthentication     = 516
	codeUnsupportedMethod  = 1
	codeUnknownCompression = 89
	codeUnknown            = 1002
)

// codeName is the symbolic name of a code above.
func codeName(code int) string {
	switch code {
	case codeUnsupportedMethod:
		return "UNSUPPORTED_METHOD"
	case codeBadArguments:
		return "BAD_ARGUMENTS"
	case codeNotImplemented:
		return "NOT_IMPLEMENTED"
	case codeSyntax:
		return "SYNTAX_ERROR"
	case codeUnknownCompression:
		return "UNKNOWN_COMPRESSION_METHOD"
	case codeTimeout:
		return "TIMEOUT_EXCEEDED"
	case codeReadonly:
		return "READONLY"
	case codeTooManyQueries:
		return "TOO_MANY_SIMULTANEOUS_QUERIES"
	case codeNetwork:
		return "NETWORK_ERROR"
	case codeCannotDecompress:
		return "CANNOT_DECOMPRESS"
	case codeCancelled:
		return "QUERY_WAS_CANCELLED"
	case codeConstraint:
		return "SETTING_CONSTRAINT_VIOLATION"
	case codeAccessDenied:
		return "ACCESS_DENIED"
	case codeAuthentication:
		return "AUTHENTICATION_FAILED"
	}
	return "UNKNOWN_EXCEPTION"
}

func exceptionf(code int, format string, args ...any) *chdb.Error {
	return &chdb.Error{Code: code, Name: codeName(code), Message: fmt.Sprintf(format, args...)}
}

// asException finds the engine's exception in err, or makes one that hides
// what went wrong inside.
func asException(err error) *chdb.Error {
	var e *chdb.Error
	if errors.As(err, &e) {
		if e.Code == 0 {
			return &chdb.Error{Code: codeUnknown, Name: codeName(codeUnknown), Message: e.Message}
		}
		return e
	}
	return exceptionf(codeUnknown, "internal error")
}

// httpStatus is the status that ClickHouse's own HTTP server gives an error
// (Server/HTTP/exceptionCodeToHTTPStatus.cpp), except that READONLY is 403 like
// other refusals, not 500.
func httpStatus(e *chdb.Error) int {
	switch e.Name {
	case "REQUIRED_PASSWORD":
		return http.StatusUnauthorized
	case "UNKNOWN_USER", "WRONG_PASSWORD", "AUTHENTICATION_FAILED", "SET_NON_GRANTED_ROLE", "ACCESS_DENIED", "READONLY":
		return http.StatusForbidden
	case "BAD_ARGUMENTS", "CANNOT_COMPILE_REGEXP", "CANNOT_PARSE_TEXT", "CANNOT_PARSE_ESCAPE_SEQUENCE",
		"CANNOT_PARSE_QUOTED_STRING", "CANNOT_PARSE_DATE", "CANNOT_PARSE_DATETIME", "CANNOT_PARSE_NUMBER",
		"CANNOT_PARSE_DOMAIN_VALUE_FROM_STRING", "CANNOT_PARSE_IPV4", "CANNOT_PARSE_IPV6",
		"CANNOT_PARSE_INPUT_ASSERTION_FAILED", "CANNOT_PARSE_UUID", "DUPLICATE_COLUMN", "ILLEGAL_COLUMN",
		"UNKNOWN_ELEMENT_IN_AST", "UNKNOWN_TYPE_OF_AST_NODE", "THERE_IS_NO_COLUMN", "TOO_DEEP_AST", "TOO_BIG_AST",
		"UNEXPECTED_AST_STRUCTURE", "SYNTAX_ERROR", "INCORRECT_DATA", "TYPE_MISMATCH", "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE":
		return http.StatusBadRequest
	case "UNKNOWN_TABLE", "UNKNOWN_FUNCTION", "UNKNOWN_IDENTIFIER", "UNKNOWN_TYPE", "UNKNOWN_STORAGE", "UNKNOWN_DATABASE",
		"UNKNOWN_SETTING", "UNKNOWN_DIRECTION_OF_SORTING", "UNKNOWN_AGGREGATE_FUNCTION", "UNKNOWN_FORMAT",
		"UNKNOWN_DATABASE_ENGINE", "UNKNOWN_TYPE_OF_QUERY", "UNKNOWN_ROLE":
		return http.StatusNotFound
	case "UNSUPPORTED_METHOD":
		return http.StatusMethodNotAllowed
	case "TIMEOUT_EXCEEDED":
		return http.StatusRequestTimeout
	case "HTTP_LENGTH_REQUIRED":
		return http.StatusLengthRequired
	case "QUERY_IS_TOO_LARGE":
		return http.StatusRequestEntityTooLarge
	case "UNSUPPORTED_MEDIA_TYPE":
		return http.StatusUnsupportedMediaType
	case "NOT_IMPLEMENTED":
		return http.StatusNotImplemented
	case "SOCKET_TIMEOUT", "CANNOT_OPEN_FILE", "CANNOT_SCHEDULE_TASK":
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
