package bridge

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplitInsert(t *testing.T) {
	for _, c := range []struct{ text, sql, format, data string }{
		{"INSERT INTO t VALUES (1)", "INSERT INTO t ", "Values", " (1)"},
		{"insert into t(a, `format`) format CSV \n1", "insert into t(a, `format`) ", "CSV", "1"},
		{"INSERT INTO values VALUES (1)", "INSERT INTO values ", "Values", " (1)"},
		{"INSERT INTO d.format FORMAT TSV\r\n\n", "INSERT INTO d.format ", "TSV", "\n"},
		{"INSERT INTO TABLE FUNCTION file('values', 'format') VALUES (1)", "INSERT INTO TABLE FUNCTION file('values', 'format') ", "Values", " (1)"},
		{"INSERT INTO t -- FORMAT X\n/* VALUES */ SETTINGS a = 'values' FORMAT Y\n;", "INSERT INTO t -- FORMAT X\n/* VALUES */ SETTINGS a = 'values' ", "Y", ";"},
		{"INSERT INTO `a;b` (x)", "INSERT INTO `a;b` (x)", "", ""},
	} {
		head, ok := splitInsert(c.text)
		if !ok || head.sql != c.sql || head.format != c.format || c.text[head.data:] != c.data {
			t.Errorf("%q: %+v, %v", c.text, head, ok)
		}
	}
	for _, text := range []string{
		"", "SELECT 1", "INSERT", "INSERT INTO t SELECT 1", "INSERT INTO t (a) WITH x AS (SELECT 1) SELECT * FROM x",
		"INSERT INTO t FROM INFILE 'x' FORMAT CSV", "INSERT INTO t VALU/*", "INSERT INTO 'x",
	} {
		if head, ok := splitInsert(text); ok && text != "INSERT INTO t VALU/*" {
			t.Errorf("%q: %+v", text, head)
		}
	}
}

func TestOutputFormat(t *testing.T) {
	for sql, want := range map[string]string{
		"SELECT 1": "fallback", "SELECT 1 FORMAT JSON": "JSON", "SELECT 1 format CSV;": "CSV", "SELECT 'FORMAT JSON'": "fallback",
		"SELECT 1 FORMAT JSON SETTINGS max_threads = 1": "JSON", "SELECT (SELECT 1 FORMAT JSON)": "fallback", "SELECT format('{}', 1)": "fallback",
		"SELECT format FROM t FORMAT TSV": "TSV", "SELECT format x FROM t": "fallback",
	} {
		if got := outputFormat(sql, "fallback"); got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}

func TestParseLayout(t *testing.T) {
	for name, want := range map[string]columnLayout{
		"UInt8":                          fixedLayout(1),
		"Decimal(10, 2)":                 fixedLayout(8),
		"Decimal(76, 2)":                 fixedLayout(32),
		"FixedString(7)":                 fixedLayout(7),
		"Enum8('a, (b' = 1, 'c\\'' = 2)": fixedLayout(1),
		"IntervalDay":                    fixedLayout(8),
		"Map(String, UInt8)":             arrayLayout{tupleLayout{stringLayout{}, fixedLayout(1)}},
		"Tuple(`a b` String, c DateTime64(3, 'UTC'))": tupleLayout{stringLayout{}, fixedLayout(8)},
		"Nested(a String, b Array(Int8))":             arrayLayout{tupleLayout{stringLayout{}, arrayLayout{fixedLayout(1)}}},
		"LowCardinality(Nullable(String))":            lowCardinality{stringLayout{}},
		"SimpleAggregateFunction(sum, Int64)":         fixedLayout(8),
	} {
		got, err := parseLayout(name)
		if err != nil {
			t.Error(name, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(lowCardinality{}, nullableLayout{}, arrayLayout{})); diff != "" {
			t.Error(name, diff)
		}
	}
	for _, name := range []string{"", "AggregateFunction(sum, Int64)", "Array", "Array()", "FixedString", "Decimal(99, 1)", "Nullable("} {
		if l, err := parseLayout(name); err == nil {
			t.Errorf("%q: %v", name, l)
		}
	}
}

func FuzzSplitInsert(f *testing.F) {
	f.Add("INSERT INTO t (a) FORMAT CSV\n1")
	f.Add("insert into `t``x` values ('\\'")
	f.Add("/*")
	f.Fuzz(func(t *testing.T, text string) {
		head, ok := splitInsert(text)
		if ok && (head.data > len(text) || !strings.HasPrefix(text, head.sql)) {
			t.Fatalf("%+v", head)
		}
		outputFormat(text, "")
		_, _ = parseLayout(text)
	})
}

func FuzzReframer(f *testing.F) {
	f.Add([]byte("\x01\x02\x01x\x05UInt8ab"), 3)
	f.Add([]byte("\x01\x01\x01x\x0cArray(UInt8)\x02\x00\x00\x00\x00\x00\x00\x00ab"), 5)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		whole, pieces := &bytes.Buffer{}, &bytes.Buffer{}
		_, err := newReframer(whole, revisionCustomSerialization).Write(b)
		r := newReframer(pieces, revisionCustomSerialization)
		at := 0
		if len(b) > 0 {
			at = ((cut % len(b)) + len(b)) % len(b)
		}
		_, err1 := r.Write(b[:at])
		var err2 error
		if err1 == nil {
			_, err2 = r.Write(b[at:])
		}
		if (err == nil) != (err1 == nil && err2 == nil) {
			t.Fatal(err, err1, err2)
		}
		if err == nil && !bytes.Equal(whole.Bytes(), pieces.Bytes()) {
			t.Fatal("cutting the input changed the output")
		}
	})
}
