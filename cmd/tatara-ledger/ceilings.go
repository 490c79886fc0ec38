package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/szymonrychu/tatara-ledger/alerts/ceiling"
	"github.com/szymonrychu/tatara-ledger/store/clickhouse"
	"github.com/szymonrychu/tatara-ledger/store/engine"
)

// newCeilingsCommand is about the file of ceilings: what to write into it, and
// whether what stands there can be meant.
func newCeilingsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ceilings",
		Short: "Suggest ceilings from what tasks have cost, and check a file of ceilings",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newCeilingsSuggestCommand(), newCeilingsCheckCommand())
	return cmd
}

// ceilingFlags are common to the commands over ceilings and the ledger.
type ceilingFlags struct {
	file   string
	store  clickHouseFlags
	engine engine.Config
}

func (f *ceilingFlags) add(cmd *cobra.Command) {
	f.engine = engine.DefaultConfig()
	f.engine.ClickHouse.Port = 0 // only this command connects to an engine of its own
	fl := cmd.Flags()
	fl.StringVar(&f.file, "ceilings", "", "`file` of ceilings laid over the shipped ones")
	f.store.add(fl)
	f.engine.ClickHouseFlags(fl)
}

// withLedger gives the ledger's store to do.
func (f *ceilingFlags) withLedger(ctx context.Context, stderr io.Writer, do func(*clickhouse.Store) error) error {
	ledger, done, err := f.store.openLedger(ctx, f.engine, newLogger(stderr, slog.LevelWarn))
	if err != nil {
		return err
	}
	return errors.Join(do(ledger), done())
}

func newCeilingsCheckCommand() *cobra.Command {
	var f ceilingFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check a file of ceilings, and its kinds against the ledger",
		Long: `Check a file of ceilings: every mistake is printed with its line, and so is every
kind that the ledger has never seen, which is likely misspelt. The ledger is
asked only if the file names kinds.

Exit status: 0 if all is well, 1 if something is not, 2 on bad usage.`,
		Example: `  tatara-ledger ceilings check --ceilings ceilings.yaml
  tatara-ledger ceilings check --ceilings ceilings.yaml --clickhouse ch:8123 --clickhouse-password-file pw`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.check(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.add(cmd)
	return cmd
}

func (f *ceilingFlags) check(ctx context.Context, stdout, stderr io.Writer) error {
	limits, err := ceiling.LoadFile(f.file)
	if err != nil {
		return err
	}
	named := limits.Kinds()
	if len(named) == 0 {
		_, err := fmt.Fprintln(stdout, "ok: no kinds are named")
		return err
	}
	var known []string
	err = f.withLedger(ctx, stderr, func(s *clickhouse.Store) (err error) {
		known, err = s.Kinds(ctx)
		return err
	})
	if err != nil {
		return err
	}
	return checkKinds(stdout, named, known)
}

func checkKinds(w io.Writer, named []ceiling.Kind, known []string) error {
	unseen := 0
	for _, k := range named {
		if slices.Contains(known, k.Name) {
			continue
		}
		unseen++
		if _, err := fmt.Fprintf(w, "%s: the ledger has never seen kind %q\n", k.Source, k.Name); err != nil {
			return err
		}
	}
	if unseen == 0 {
		_, err := fmt.Fprintf(w, "ok: the ledger has seen all %d kinds that are named\n", len(named))
		return err
	}
	seen := "none yet"
	if len(known) > 0 {
		seen = strings.Join(known, ", ")
	}
	return fmt.Errorf("kinds that were never seen: %d of %d; those that were: %s", unseen, len(named), seen)
}
