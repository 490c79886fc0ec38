package chdb

import (
	"fmt"
	"strconv"
	"strings"
)

// Error is an exception of the engine.
type Error struct {
	// Code is ClickHouse's error code (system.errors), 0 if the text had none.
	Code int
	// Name is its symbolic name, for example UNKNOWN_TABLE, or "".
	Name string
	// Message is the text without code, name and version.
	Message string
}

// Error is the exception as the ClickHouse server words it, without the version.
func (e *Error) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("Code: %d. DB::Exception: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("Code: %d. DB::Exception: %s (%s)", e.Code, e.Message, e.Name)
}

// parseError reads "Code: 60. DB::Exception: text. (UNKNOWN_TABLE) (version x)".
func parseError(text string) *Error {
	e := &Error{Message: strings.TrimSpace(text)}
	if at := strings.Index(e.Message, "Code: "); at >= 0 {
		digits, rest, ok := strings.Cut(e.Message[at+len("Code: "):], ". ")
		if code, err := strconv.Atoi(digits); ok && err == nil {
			e.Code, e.Message = code, strings.TrimPrefix(rest, "DB::Exception: ")
		}
	}
	if at := strings.LastIndex(e.Message, " (version "); at >= 0 {
		e.Message = e.Message[:at]
	}
	if at := strings.LastIndex(e.Message, " ("); at >= 0 && strings.HasSuffix(e.Message, ")") {
		if name := e.Message[at+2 : len(e.Message)-1]; isErrorName(name) {
			e.Name, e.Message = name, e.Message[:at]
		}
	}
	return e
}

func isErrorName(s string) bool {
	for _, r := range s {
		if (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' {
			return false
		}
	}
	return s != ""
}
