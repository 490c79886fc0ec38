package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"
	"golang.org/x/term"
)

// listing is a list of things that a command prints: a table for people, or
// all there is, as JSON or CSV, for programs.
type listing[T any] struct {
	things []T
	header []string
	cells  func(T) []string
	right  []bool // columns aligned to the right
	fields []string
	values func(T) []string
}

func (l *listing[T]) write(w io.Writer, format string) error {
	switch format {
	case "json":
		if l.things == nil {
			l.things = []T{}
		}
		return writeJSON(w, l.things)
	case "csv":
		records := [][]string{l.fields}
		for _, t := range l.things {
			records = append(records, l.values(t))
		}
		return csv.NewWriter(w).WriteAll(records)
	}
	return l.table(w)
}

func (l *listing[T]) table(w io.Writer) error {
	align := make(tw.Alignment, len(l.header))
	for i := range align {
		align[i] = tw.AlignLeft
		if i < len(l.right) && l.right[i] {
			align[i] = tw.AlignRight
		}
	}
	t := tablewriter.NewTable(w, tablewriter.WithConfig(tablewriter.Config{
		Header: tw.CellConfig{Formatting: tw.CellFormatting{AutoFormat: tw.Off}, Alignment: tw.CellAlignment{Global: tw.AlignLeft}},
		Row:    tw.CellConfig{Formatting: tw.CellFormatting{AutoWrap: tw.WrapNone}, Alignment: tw.CellAlignment{PerColumn: align}},
	}))
	t.Header(l.header)
	for _, thing := range l.things {
		cells := l.cells(thing)
		for i := range cells {
			cells[i] = oneLine(cells[i])
		}
		if err := t.Append(cells); err != nil {
			return fmt.Errorf("writing the table: %w", err)
		}
	}
	if err := t.Render(); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

// plain replaces what would move a terminal's cursor or colour it: texts come
// from agents. Lines and tabs stay.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// oneLine is plain, in one line.
func oneLine(s string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(plain(s))
}

// stamp is a time for people; programs get RFC 3339.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// note tells people something beside the output. If it does not arrive,
// nothing is lost.
func note(stderr io.Writer, text string) { _, _ = fmt.Fprintln(stderr, text) }

func moreThan(limit int) string {
	return fmt.Sprintf("There are more than these %d: --limit 0 lists all.", limit)
}
