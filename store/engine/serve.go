package engine

import (
	"context"
	"log/slog"
	"os"

	"github.com/szymonrychu/tatara-ledger/store/engine/bridge"
)

// Serve is what the child process does: it serves ClickHouse's HTTP interface
// until ctx ends or the parent is gone. The restricted account may read the
// published views of the default database.
func (c *ClickHouseChild) Serve(ctx context.Context, published []string, log *slog.Logger) error {
	owner, err := readSecret(c.PasswordFile)
	if err != nil {
		return err
	}
	grafana, err := readSecret(c.GrafanaPasswordFile)
	if err != nil {
		return err
	}
	cfg := bridge.Config{
		LibraryPath:    c.Library,
		DataPath:       c.Path,
		Address:        c.Listen,
		Owner:          bridge.Account{Name: c.User, Password: owner.Reveal()},
		Restricted:     bridge.Account{Name: c.GrafanaUser, Password: grafana.Reveal()},
		Database:       c.Database,
		DrainTimeout:   c.DrainTimeout,
		MaxMemoryBytes: c.MemoryBytes,
		Until:          os.Stdin,
		Log:            log,
	}
	for _, name := range published {
		cfg.Published = append(cfg.Published, bridge.View{Database: c.Database, Name: name})
	}
	return bridge.Run(ctx, cfg)
}
