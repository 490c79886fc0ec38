// Command tatara-ledger keeps the ledger of a fleet of coding agents: what it
// cost, by whom, and whether the cache works.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "tatara-ledger:", err)
		os.Exit(exitCode(err))
	}
}

// run is the whole program: it returns when the command is done or a signal
// asks it to stop.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A stop waits for much, and none of it is worth waiting for twice: a Ctrl-C
	// after the first signal ends the process. A SIGTERM after a Ctrl-C does not:
	// the terminal sends the one to a script and its children, and the script
	// then sends the other.
	context.AfterFunc(ctx, func() { signal.Reset(os.Interrupt) })
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	understood := false
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		err := flagsFromEnvironment(cmd.Flags(), os.LookupEnv)
		understood = err == nil
		return err
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !understood { // an unknown command or flag, or a value that is none
		return &exitError{badUsage(cmd), err}
	}
	return err
}

// exitError carries an exit code other than 1.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func exitCode(err error) int {
	var e *exitError
	if errors.As(err, &e) {
		return e.code
	}
	return 1
}
