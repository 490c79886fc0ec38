package bridge

import (
	"io"
	"mime/multipart"
	"strings"

	"github.com/szymonrychu/tatara-ledger/store/engine/chdb"
)

// externalTables makes a temporary table of each file of a multipart body,
// and returns the statement's text, if it is among the parts.
func (x *execution) externalTables(body io.Reader, boundary string) (statement io.Reader, err error) {
	if x.query.restricted {
		return nil, exceptionf(codeAccessDenied, "this account may not send external tables")
	}
	var text strings.Builder
	for parts := multipart.NewReader(body, boundary); ; {
		part, err := parts.NextPart()
		if err == io.EOF {
			return strings.NewReader(text.String()), nil
		}
		if err != nil {
			return nil, readFailure(err)
		}
		switch name := part.FormName(); {
		case name == "query":
			if _, err := io.Copy(&text, io.LimitReader(part, statementBytes)); err != nil {
				return nil, readFailure(err)
			}
		case x.query.externals.Has(name+"_structure") || x.query.externals.Has(name+"_types"):
			if err := x.externalTable(name, part); err != nil {
				return nil, err
			}
		default:
			return nil, exceptionf(codeBadArguments, "external table %q has no structure", name)
		}
	}
}

func (x *execution) externalTable(name string, data io.Reader) error {
	structure, format := x.query.externals.Get(name+"_structure"), x.query.externals.Get(name+"_format")
	if structure == "" { // only types were given: the columns are _1, _2, …
		_, types := splitType("(" + x.query.externals.Get(name+"_types") + ")")
		for i, t := range types {
			types[i] = "_" + string(rune('1'+i)) + " " + t
		}
		structure = strings.Join(types, ", ")
	}
	if format == "" {
		format = "TabSeparated"
	}
	if err := x.do("CREATE TEMPORARY TABLE " + quoteName(name) + " (" + structure + ") ENGINE = Memory"); err != nil {
		return err
	}
	insert, err := x.conn.Insert(chdb.Statement{SQL: "INSERT INTO " + quoteName(name), Format: format})
	if err != nil {
		return err
	}
	defer insert.Close()
	if err := feed(insert, data); err != nil {
		return err
	}
	_, err = insert.Done()
	return err
}
