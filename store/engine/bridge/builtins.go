package bridge

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/szymonrychu/tatara-ledger/store/engine/chdb"
)

// builtins are the functions that the engine itself defines, in lower case:
// case never makes a built-in function of another kind.
type builtins struct {
	functions, aggregates map[string]bool
	combinators           []string
}

// syntax are names that the parser gives to constructs that are no functions
// for system.functions.
const syntax = " lambda untuple exists columns grouping "

// readBuiltins asks the engine.
func readBuiltins(conn *chdb.Conn) (*builtins, error) {
	b := &builtins{functions: map[string]bool{}, aggregates: map[string]bool{}}
	read := func(sql string, each func(name string, aggregate bool)) error {
		text, _, err := conn.Exec(chdb.Statement{SQL: sql, Format: "JSONEachRow"})
		if err != nil {
			return fmt.Errorf("listing built-in functions: %w", err)
		}
		for d := json.NewDecoder(strings.NewReader(string(text))); d.More(); {
			var row struct {
				Name      string `json:"name"`
				Aggregate uint8  `json:"is_aggregate"`
			}
			if err := d.Decode(&row); err != nil {
				return fmt.Errorf("listing built-in functions: %w", err)
			}
			each(strings.ToLower(row.Name), row.Aggregate != 0)
		}
		return nil
	}
	err := read("SELECT name, is_aggregate FROM system.functions WHERE origin = 'System'", func(name string, aggregate bool) {
		b.functions[name] = true
		b.aggregates[name] = b.aggregates[name] || aggregate
	})
	if err != nil {
		return nil, err
	}
	return b, read("SELECT name FROM system.aggregate_function_combinators", func(name string, _ bool) {
		b.combinators = append(b.combinators, name)
	})
}

// has reports that name is built in, or a built-in aggregate function with
// combinators behind it (sumIf).
func (b *builtins) has(name string) bool {
	name = strings.ToLower(name)
	if b.functions[name] || strings.Contains(syntax, " "+name+" ") {
		return true
	}
	return b.combines(name)
}

func (b *builtins) combines(name string) bool {
	for _, c := range b.combinators {
		if base, ok := strings.CutSuffix(name, c); ok && (b.aggregates[base] || b.combines(base)) {
			return true
		}
	}
	return false
}
