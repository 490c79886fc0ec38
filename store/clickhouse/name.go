package clickhouse

import "strings"

// quoteName quotes an identifier, the one thing that parameters cannot carry.
func quoteName(name string) string {
	return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(name) + "`"
}
