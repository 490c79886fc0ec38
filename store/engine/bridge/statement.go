package bridge

// insertHead is an INSERT that is followed by its data.
type insertHead struct {
	// sql is the statement up to VALUES or FORMAT.
	sql string
	// format is the data's format; "" if the statement does not say.
	format string
	// data is the offset of the data behind the head.
	data int
}

// splitInsert finds the head of an INSERT with data at the beginning of text,
// which may be cut off anywhere in the data. INSERT … SELECT, other statements
// and heads that do not end within text give ok = false.
func splitInsert(text string) (head insertHead, ok bool) {
	s := &scanner{sql: text}
	t, ok := s.next()
	if !ok || !t.is("insert") {
		return head, false
	}
	if t, ok = s.next(); !ok {
		return head, false
	}
	for t.is("into") || t.is("table") {
		if t, ok = s.next(); !ok {
			return head, false
		}
	}
	if t.is("function") { // its name and arguments are no keywords of ours
		if t, ok = s.next(); !ok {
			return head, false
		}
	}
	end := t.end // of the table's name, whatever it is called
	for {
		t, ok = s.next()
		switch {
		case !ok || (t.text == ";" && !t.quoted && t.depth == 0):
			// No FORMAT, no VALUES: the data, if any, comes apart from it.
			return insertHead{sql: text[:end], data: len(text)}, onlySpace(text, s.at)
		case t.depth > 0:
		case t.is("."):
			if t, ok = s.next(); !ok {
				return head, false
			}
		case t.is("values"):
			return insertHead{sql: text[:t.start], format: "Values", data: t.end}, true
		case t.is("format"):
			name, ok := s.next()
			if !ok || !name.isWord() {
				return head, false
			}
			return insertHead{sql: text[:t.start], format: name.text, data: skipLine(text, name.end)}, true
		case t.is("select"), t.is("with"), t.is("from"), t.is("watch"):
			return head, false
		}
		end = t.end
	}
}

func onlySpace(text string, at int) bool {
	s := &scanner{sql: text, at: at}
	s.skipSpace()
	return s.at >= len(text)
}

// skipLine steps over blanks and at most one line end, as ClickHouse does
// between a format's name and the data.
func skipLine(text string, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\f') {
		at++
	}
	if at < len(text) && text[at] == '\r' {
		at++
	}
	if at < len(text) && text[at] == '\n' {
		at++
	}
	return at
}

// outputFormat is the format that a statement's own FORMAT clause asks for,
// or fallback.
func outputFormat(sql, fallback string) string {
	s := &scanner{sql: sql}
	for {
		t, ok := s.next()
		if !ok {
			return fallback
		}
		if t.depth != 0 || !t.is("format") {
			continue
		}
		name, ok := s.next()
		if !ok || !name.isWord() {
			continue
		}
		after, more := s.next()
		if !more || after.text == ";" || after.is("settings") || after.is("into") {
			return name.text
		}
		s.at, s.depth = name.end, name.depth
	}
}
