package bridge

import (
	"log/slog"
	"testing"

	"github.com/szymonrychu/tatara-ledger/store/engine/chdb"
)

func TestLogLevel(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]slog.Level{
		"UNKNOWN_TABLE": slog.LevelDebug, "SYNTAX_ERROR": slog.LevelDebug, "WRONG_PASSWORD": slog.LevelDebug,
		"MEMORY_LIMIT_EXCEEDED": slog.LevelWarn, "CANNOT_OPEN_FILE": slog.LevelWarn,
	} {
		if got := logLevel(&chdb.Error{Name: name}); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
