package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/szymonrychu/tatara-ledger/collector/pricing"
	"github.com/szymonrychu/tatara-ledger/simulate"
)

// newSimulateCommand plays a fleet of wrappers, or a recording of real ones.
func newSimulateCommand() *cobra.Command {
	s := simulation{cfg: simulate.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Push the telemetry of a simulated fleet and print what it spent",
		Long: `Play a fleet of wrappers over the real wire format: pods that push snapshots of
their counters, crash and come back under the same run id, push late, or never
finish a turn. What is sent follows from the flags and --seed, so sending a fleet
again must change no total.

At the end it prints the exact truth: the last acknowledged snapshot of every
process, summed and priced. The exit code is 0 if the last snapshot of every
process was acknowledged, else 1.

With --until-acknowledged a pod repeats its last snapshot until it is, so that
receivers may be killed and restarted meanwhile.`,
		Example: `  tatara-ledger simulate
  tatara-ledger simulate --pods 200 --seed 7 --interval 5ms --format json
  tatara-ledger simulate --push-url http://127.0.0.1:8082/internal/metrics/push \
      --push-url http://127.0.0.1:8092/internal/metrics/push \
      --duplicate --shuffle --until-acknowledged --truth truth.json
  tatara-ledger simulate --models claude-opus-4-8,house-llm --repos 'widgets,""'
  tatara-ledger simulate replay
  tatara-ledger simulate runaway --usd 30`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd, simulate.New, nothing) },
	}
	s.addFlags(cmd)
	cmd.AddCommand(newSimulateReplayCommand(), newSimulateRunawayCommand())
	return cmd
}

// simulation has the flags of the command.
type simulation struct {
	cfg    simulate.Config
	prices string
	format string
	truth  string
}

func (s *simulation) addFlags(cmd *cobra.Command) {
	c, flags := &s.cfg, cmd.Flags()
	s.addSending(flags)
	flags.IntVar(&c.Pods, "pods", c.Pods, "number of pods")
	flags.StringSliceVar(&c.Kinds, "kinds", c.Kinds, "kinds of work, dealt to the pods in turn")
	flags.StringSliceVar(&c.Repos, "repos", c.Repos, `repositories; "" is for kinds that work on no single one`)
	flags.StringSliceVar(&c.Models, "models", c.Models, "models; one that the price book does not know stays unpriced")
	flags.StringSliceVar(&c.Projects, "projects", c.Projects, "projects")
	flags.IntVar(&c.Turns, "turns", c.Turns, "most turns of a process")
	flags.IntVar(&c.Respawns, "respawns", c.Respawns, "most respawns of a pod under one run id")
	flags.IntVar(&c.Concurrency, "concurrency", c.Concurrency, "pods alive at once; with --shuffle, requests in flight at once")
	flags.BoolVar(&c.Duplicate, "duplicate", false, "send every request twice")
	flags.BoolVar(&c.Shuffle, "shuffle", false, "all pods live at once and push in random order")
	flags.DurationVar(&c.Gap, "gap", 0, "stop sending for this long when half is sent")
}

// addSending adds the flags of whatever is pushed.
func (s *simulation) addSending(flags *pflag.FlagSet) {
	c := &s.cfg
	flags.StringSliceVar(&c.PushURLs, "push-url", c.PushURLs, "receiver of the pushes; repeat it to spread them over several")
	flags.Uint64Var(&c.Seed, "seed", c.Seed, "`number` that determines what is sent")
	flags.DurationVar(&c.Interval, "interval", c.Interval, "time between two pushes of a pod; a real wrapper has 15s")
	flags.BoolVar(&c.UntilAcknowledged, "until-acknowledged", false, "repeat the last snapshot of a process until it is acknowledged")
	flags.DurationVar(&c.Patience, "patience", c.Patience, "how long to repeat one snapshot; 0 is without end")
	flags.StringVar(&s.format, "format", "table", "output format: table or json")
	flags.StringVar(&s.truth, "truth", "", "write the truth as JSON to this `file` too")
	flags.StringVar(&s.prices, "prices", "", "price `file` laid over the shipped book")
}

// nothing is to be done before a fleet runs.
func nothing(context.Context, *simulate.Fleet) error { return nil }

// run plans a fleet, does what is to be done before, and runs it.
func (s *simulation) run(cmd *cobra.Command, plan func(simulate.Config) (*simulate.Fleet, error), before func(context.Context, *simulate.Fleet) error) error {
	if err := badFormat(s.format, "table", "json"); err != nil {
		return err
	}
	book, err := pricing.LoadFile(s.prices)
	if err != nil {
		return err
	}
	s.cfg.Prices = book
	bar := bar{what: "pushing", w: cmd.ErrOrStderr()}
	s.cfg.After = func(r simulate.Request, _ simulate.Outcome) {
		if r.Attempt == 1 {
			bar.step()
		}
	}
	fleet, err := plan(s.cfg)
	if err != nil {
		return err
	}
	if err := before(cmd.Context(), fleet); err != nil {
		return err
	}
	bar.start(fleet.Requests())
	truth, report, runErr := fleet.Run(cmd.Context())
	bar.finish()
	// What was acknowledged is of use after an interrupted run too.
	if err := s.write(cmd.OutOrStdout(), cmd.ErrOrStderr(), truth, report); err != nil {
		return errors.Join(runErr, err)
	}
	switch {
	case errors.Is(runErr, context.Canceled):
		return fmt.Errorf("interrupted after %d of %d requests", report.Requests, report.Planned)
	case runErr != nil:
		return fmt.Errorf("running the fleet: %w", runErr)
	case report.Unacknowledged > 0:
		return fmt.Errorf("%d of %d lives were not acknowledged to their end: the truth has what was", report.Unacknowledged, report.Lives)
	}
	return nil
}

func (s *simulation) write(out, summary io.Writer, t simulate.Truth, r simulate.Report) error {
	if s.truth != "" {
		text, err := json.MarshalIndent(t, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding the truth: %w", err)
		}
		if err := os.WriteFile(s.truth, append(text, '\n'), 0o644); err != nil {
			return fmt.Errorf("writing the truth: %w", err)
		}
	}
	if s.format == "json" {
		return writeJSON(out, struct {
			simulate.Truth
			Kinds  map[string]simulate.Sum `json:"by_kind"`
			Total  simulate.Sum            `json:"total"`
			Turns  map[string]uint64       `json:"turns"`
			Report simulate.Report         `json:"report"`
		}{t, t.By(simulate.ByKind), t.Total(), t.Turns(), r})
	}
	if err := writeTruth(out, t); err != nil {
		return err
	}
	return r.WriteText(summary)
}

// writeTruth draws the rows, then what they sum up to.
func writeTruth(w io.Writer, t simulate.Truth) error {
	columns := []any{"input", "output", "cache read", "cache write", "US$"}
	rows := tablewriter.NewTable(w, tablewriter.WithHeaderAutoFormat(tw.Off))
	rows.Header(append([]any{"task", "project", "repo", "kind", "model"}, columns...)...)
	for _, r := range t.Rows {
		if err := rows.Append(append([]string{r.Task, r.Project, r.Repo, r.Kind, r.Model}, sumCells(r.Sum)...)); err != nil {
			return fmt.Errorf("drawing the truth: %w", err)
		}
	}
	if err := rows.Render(); err != nil {
		return fmt.Errorf("drawing the truth: %w", err)
	}
	sums := tablewriter.NewTable(w, tablewriter.WithHeaderAutoFormat(tw.Off))
	sums.Header(append([]any{"kind"}, columns...)...)
	kinds := t.By(simulate.ByKind)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if err := sums.Append(append([]string{kind}, sumCells(kinds[kind])...)); err != nil {
			return fmt.Errorf("drawing the sums: %w", err)
		}
	}
	if err := sums.Append(append([]string{"all"}, sumCells(t.Total())...)); err != nil {
		return fmt.Errorf("drawing the sums: %w", err)
	}
	if err := sums.Render(); err != nil {
		return fmt.Errorf("drawing the sums: %w", err)
	}
	turns, calls := t.Turns(), uint64(0)
	for _, n := range t.Tools() {
		calls += n
	}
	text := fmt.Sprintf("turns: %d complete, %d failed, %d interrupted; tool calls: %d\n",
		turns["complete"], turns["failed"], turns["interrupted"], calls)
	if n := t.Total().UnpricedTokens; n > 0 {
		text += fmt.Sprintf("%d tokens have no price\n", n)
	}
	_, err := io.WriteString(w, text)
	return err
}

func sumCells(s simulate.Sum) []string {
	cells := []string{}
	for _, n := range []uint64{s.Input, s.Output, s.CacheRead, s.CacheWrite} {
		cells = append(cells, strconv.FormatUint(n, 10))
	}
	return append(cells, s.Cost.String())
}

// newSimulateReplayCommand replays recorded pushes.
func newSimulateReplayCommand() *cobra.Command {
	to := simulate.DefaultConfig().PushURLs[0]
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "replay [DIR]",
		Short: "Replay recorded pushes of real wrappers",
		Long: `Replay the requests that DIR/index.json lists, in their order and byte for byte.
Without DIR, replay the recording that is shipped with the program: three pods
of a real wrapper, one of which comes back under its run id while its last push
and its DELETE are still on their way.

The exit code is 0 if every request was acknowledged, else 1.`,
		Example: `  tatara-ledger simulate replay
  tatara-ledger simulate replay ./recording --push-url http://127.0.0.1:8082/internal/metrics/push`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var recording fs.FS = simulate.Recording()
			if len(args) > 0 {
				recording = os.DirFS(args[0])
			}
			report, err := simulate.Replay(cmd.Context(), recording, to, interval)
			if err != nil {
				return err
			}
			if err := report.WriteText(cmd.OutOrStdout()); err != nil {
				return err
			}
			if report.Acknowledged < report.Planned {
				return fmt.Errorf("%d of %d requests were not acknowledged", report.Planned-report.Acknowledged, report.Planned)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&to, "push-url", to, "receiver; its path replaces the recorded one unless it has none")
	cmd.Flags().DurationVar(&interval, "interval", 0, "pause between two requests")
	return cmd
}

// bar shows progress on a terminal, and nothing anywhere else.
type bar struct {
	what  string // goes on
	w     io.Writer
	shown *progressbar.ProgressBar
}

// start begins; a total of -1 is unknown.
func (b *bar) start(total int) {
	f, ok := b.w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return
	}
	b.shown = progressbar.NewOptions(total, progressbar.OptionSetWriter(b.w), progressbar.OptionSetDescription(b.what),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish())
}

// step is safe for concurrent use. A bar that cannot draw is no reason to stop.
func (b *bar) step() {
	if b.shown != nil {
		_ = b.shown.Add(1)
	}
}

func (b *bar) finish() {
	if b.shown != nil {
		_ = b.shown.Finish()
	}
}
