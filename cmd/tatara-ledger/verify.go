package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/szymonrychu/tatara-ledger/collector"
	"github.com/szymonrychu/tatara-ledger/collector/derive"
	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/store/engine"
)

type verifyFlags struct {
	store       clickHouseFlags
	engine      engine.Config
	collector   collector.Config
	prices      string
	taskPattern string
	format      string
}

func newVerifyCommand() *cobra.Command {
	f := verifyFlags{engine: engine.DefaultConfig(), collector: collector.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Recompute the ledger from its facts and print any difference",
		Long: `Recompute every charge from the stored facts, and every sum from the charges,
and print what differs. Nothing is written. It may run beside the service.

Give the price file and the task pattern that the service has: prices that were
changed since show as differences, which is how to find what a correction of
prices would change.

Exit status: 0 if nothing differs, 1 if something does, 2 on bad usage.`,
		Example: `  tatara-ledger verify --data-dir ./data
  tatara-ledger verify --clickhouse ch:8123 --clickhouse-password-file pw --format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.prices, "prices", "", "price `file` laid over the shipped book")
	fl.StringVar(&f.taskPattern, "task-pattern", "", "regular `expression` with one capture group: the task of a pod's name")
	fl.DurationVar(&f.collector.ConflictWindow, "conflict-window", f.collector.ConflictWindow, "how long a call's id counts once")
	fl.StringVar(&f.format, "format", "table", "output format: table or json")
	f.store.add(fl)
	f.engine.ClickHouse.Port = 0 // only this command connects to an engine of its own
	f.engine.ClickHouseFlags(fl)
	return cmd
}

func (f *verifyFlags) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	if err := badFormat(f.format, "table", "json"); err != nil {
		return err
	}
	pattern, err := (&serveConfig{taskPattern: f.taskPattern}).pattern()
	if err != nil {
		return &exitError{2, err}
	}
	book, err := pricing.LoadFile(f.prices)
	if err != nil {
		return err
	}
	ledger, done, err := f.store.openLedger(ctx, f.engine, newLogger(stderr, slog.LevelWarn))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	v := collector.NewVerifier(ledger, derive.New(book, pattern), f.collector.ConflictWindow, progress(stderr, "verifying"))
	out, err := v.Run(ctx)
	if err != nil {
		return err
	}
	if err := writeVerification(stdout, out, f.format); err != nil {
		return err
	}
	if n := len(out.Differences); n > 0 {
		return fmt.Errorf("%d differences", n)
	}
	return nil
}

// maxDifferences bounds what is printed for people: one cause usually shows
// thousands of times.
const maxDifferences = 50

func writeVerification(w io.Writer, v *collector.Verification, format string) error {
	if format == "json" {
		return writeJSON(w, v)
	}
	for i, d := range v.Differences {
		if i == maxDifferences {
			if _, err := fmt.Fprintf(w, "and %d more; --format json has all\n", len(v.Differences)-i); err != nil {
				return err
			}
			break
		}
		if _, err := fmt.Fprintf(w, "%s\t%s\t%s\n\twant   %s\n\tstored %s\n", d.What, d.Where, d.ID, d.Want, d.Stored); err != nil {
			return err
		}
	}
	for _, id := range v.Reused {
		if _, err := fmt.Fprintf(w, "reused id\t%q\tcame again after the conflict window; both calls count\n", id); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%d calls, %d runs and %d charges verified, %d differences\n", v.Events, v.Runs, v.Charges, len(v.Differences))
	return err
}

// progress is a bar on a terminal, and nothing elsewhere.
func progress(w io.Writer, what string) func(done, total int) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func(int, int) {}
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetDescription(what), progressbar.OptionSetWriter(w), progressbar.OptionClearOnFinish())
	return func(done, total int) {
		bar.ChangeMax(total)
		_ = bar.Set(done)
	}
}
