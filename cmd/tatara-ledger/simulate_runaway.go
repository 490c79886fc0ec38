package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/collector/usage"
	"github.com/szymonrychu/tatara-ledger/simulate"
)

// simulateRunaway has the flags of the command.
type simulateRunaway struct {
	simulation
	client        clientFlags
	task          simulate.Runaway
	usd           string
	project, repo string
}

// newSimulateRunawayCommand plays one task that costs more and more.
func newSimulateRunawayCommand() *cobra.Command {
	s := simulateRunaway{simulation: simulation{cfg: simulate.DefaultConfig()}, task: simulate.Runaway{Pushes: 12}, usd: "5"}
	c := &s.cfg
	c.Pods, c.Models, c.Kinds = 3, []string{"claude-opus-4-8"}, []string{"implement"}
	s.project, s.repo = "demo", "widgets"
	cmd := &cobra.Command{
		Use:   "runaway",
		Short: "Push the telemetry of one task that runs away",
		Long: `Play one task that a platform works at with one pod after the other, each of
them a run of its own, over the real wire format. With every push it costs more,
until it has cost --usd, exceeded by less than the price of one token.

A push names its pod, not its task. With --task every run is linked to that task
at the API before the first push; without it the receiver's --task-pattern has to
make one task of the pods, which are called --pod-prefix and -0, -1, -2.

At the end it prints the exact truth. The exit code is 0 if the last snapshot of
every pod was acknowledged, else 1.`,
		Example: `  tatara-ledger simulate runaway --task T-4711 --usd 30 --interval 1s
  tatara-ledger simulate runaway --pod-prefix runaway-t9 --pods 5 --pushes 50 --kind implement,review --format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd) },
	}
	flags := cmd.Flags()
	s.addSending(flags)
	s.client.add(flags)
	flags.StringVar(&s.task.Task, "task", "", "`name` of the task, to which the runs are linked")
	flags.StringVar(&s.task.PodPrefix, "pod-prefix", "", "`beginning` of the names of the pods (default: runaway- and the seed); two runs of the command need two")
	flags.StringVar(&s.usd, "usd", s.usd, "`dollars` that the task costs in the end")
	flags.IntVar(&s.task.Pushes, "pushes", s.task.Pushes, "number of pushes that bring spend")
	flags.IntVar(&c.Pods, "pods", c.Pods, "number of pods, one after the other")
	flags.StringSliceVar(&c.Models, "models", c.Models, "models, dealt to the pushes in turn; all must have prices")
	flags.StringVar(&s.project, "project", s.project, "project")
	flags.StringVar(&s.repo, "repo", s.repo, "repository")
	flags.StringSliceVar(&c.Kinds, "kind", c.Kinds, "kind of work; of several, dealt to the pods in turn, the task changes its kind")
	return cmd
}

func (s *simulateRunaway) run(cmd *cobra.Command) error {
	cost, err := usage.ParseDollars(s.usd)
	if err != nil {
		return fmt.Errorf("--usd %q: want dollars such as 12.5", s.usd)
	}
	s.task.Cost = cost
	s.cfg.Projects, s.cfg.Repos = []string{s.project}, []string{s.repo}
	before := nothing
	if s.task.Task != "" {
		before = s.linkRuns
	}
	return s.simulation.run(cmd, func(cfg simulate.Config) (*simulate.Fleet, error) {
		return simulate.NewRunaway(cfg, s.task)
	}, before)
}

// linkRuns says to which task the runs belong.
func (s *simulateRunaway) linkRuns(ctx context.Context, f *simulate.Fleet) error {
	return s.client.call(ctx, func(c *client.Client) error {
		for _, r := range f.Runs() {
			if err := c.PutRun(ctx, r.Run, client.RunLink{Pod: r.Pod, Task: r.Task}); err != nil {
				return fmt.Errorf("linking run %s: %w", r.Run, err)
			}
		}
		return nil
	})
}
