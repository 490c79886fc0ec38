package bridge

import "strings"

// token is one piece of SQL: a word, a quoted name or string, or one byte of
// anything else. Comments and white space are skipped.
type token struct {
	text       string
	start, end int
	quoted     bool // a name or string in quotes
	literal    bool // a string
	depth      int  // of brackets, before this token
}

// is reports whether the token is the unquoted keyword.
func (t token) is(keyword string) bool { return !t.quoted && strings.EqualFold(t.text, keyword) }

func (t token) isWord() bool {
	return !t.literal && (t.quoted || (t.text != "" && isWordByte(t.text[0])))
}

// scanner cuts SQL into tokens. It knows only as much of the language as is
// needed to find where a statement's header ends; the engine parses it for real.
type scanner struct {
	sql   string
	at    int
	depth int
}

func isWordByte(b byte) bool {
	return b == '_' || b == '$' || b >= 0x80 || (b >= '0' && b <= '9') || (b|0x20 >= 'a' && b|0x20 <= 'z')
}

// next returns the next token; ok is false at the end, or inside a comment or
// quotation that does not end.
func (s *scanner) next() (t token, ok bool) {
	if !s.skipSpace() {
		return token{}, false
	}
	start := s.at
	switch b := s.sql[s.at]; {
	case b == '\'' || b == '"' || b == '`':
		if !s.skipQuoted(b) {
			return token{}, false
		}
		return token{s.sql[start+1 : s.at-1], start, s.at, true, b == '\'', s.depth}, true
	case isWordByte(b):
		for s.at < len(s.sql) && isWordByte(s.sql[s.at]) {
			s.at++
		}
	default:
		s.at++
	}
	t = token{s.sql[start:s.at], start, s.at, false, false, s.depth}
	switch t.text {
	case "(", "[", "{":
		s.depth++
	case ")", "]", "}":
		s.depth--
	}
	return t, true
}

func (s *scanner) skipSpace() bool {
	for s.at < len(s.sql) {
		rest := s.sql[s.at:]
		switch {
		case strings.IndexByte(" \t\r\n\f\v", rest[0]) >= 0:
			s.at++
		case strings.HasPrefix(rest, "--") || strings.HasPrefix(rest, "# ") || strings.HasPrefix(rest, "#!"):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				return false
			}
			s.at += end + 1
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return false
			}
			s.at += end + 4
		default:
			return true
		}
	}
	return false
}

// skipQuoted steps over a quotation, in which the quote is escaped by a
// backslash or doubled.
func (s *scanner) skipQuoted(quote byte) bool {
	for s.at++; s.at < len(s.sql); s.at++ {
		switch s.sql[s.at] {
		case '\\':
			s.at++
		case quote:
			s.at++
			if s.at == len(s.sql) || s.sql[s.at] != quote {
				return true
			}
		}
	}
	return false
}
