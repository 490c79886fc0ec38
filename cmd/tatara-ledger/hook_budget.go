package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/szymonrychu/tatara-ledger/api/client"
	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// taskVariable is where a pod says which task it works for.
const taskVariable = "TATARA_TASK"

// hookBudget has the flags of the command.
type hookBudget struct {
	client  clientFlags
	task    string
	enforce bool
	fail    string
	timeout time.Duration
	notes   string // folder that remembers which session was told what
}

func newHookBudgetCommand() *cobra.Command {
	h := hookBudget{notes: os.TempDir()}
	cmd := &cobra.Command{
		Use:   "budget",
		Short: "Ask for the task's budget before a tool call or a prompt",
		Long: `Ask the service how the task stands to its ceiling, as a hook of Claude Code
before a tool call (PreToolUse) or a prompt (UserPromptSubmit).

  below 80 %            nothing
  80 % of any limit     a warning for the person and the model: what was spent,
                        the limit, and when it will be reached at this rate
  100 %                 the same in strong words; with --enforce the tool call or
                        the prompt is denied, and the reason is given
  a task without spend  nothing
  no task               a note, once per session; the agent goes on
  no answer             a note for the person, and the agent goes on; with
                        --fail closed the tool call or the prompt is denied

The task is --task, else TATARA_LEDGER_TASK, else TATARA_TASK. The service adds up
all runs, pods and sessions of a task; it is not asked by run or session. Where
nothing links runs to tasks, the task of a push is its pod: --task "$HOSTNAME".

Input that cannot be read is noted; the task is asked for all the same. Any other
event is told, never denied.

Exit status: 0 whatever the answer is, which stands in the JSON on stdout; 1 on
bad usage, which Claude Code shows and goes on after. Never 2, which would block.

In settings.json:

` + hookSettings,
		Example: `  tatara-ledger hook budget --enforce
  tatara-ledger hook budget --enforce --fail closed --timeout 5s --token-file /run/secrets/ledger
  echo '{"hook_event_name":"PreToolUse"}' | tatara-ledger hook budget --task task-42`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	fl := cmd.Flags()
	h.client.add(fl)
	fl.StringVar(&h.task, "task", "", "`name` of the task (default: $"+taskVariable+")")
	fl.BoolVar(&h.enforce, "enforce", false, "deny at 100 %, instead of warning")
	fl.StringVar(&h.fail, "fail", failOpen, "what to do when the service does not answer: open, the agent goes on, or closed, it does not")
	fl.DurationVar(&h.timeout, "timeout", 2*time.Second, "how long to wait for the answer, and before that for the input")
	return cmd
}

const (
	failOpen   = "open"
	failClosed = "closed"
)

// hookSettings is an example. The shell makes 1 of every failure: that of an
// older program that does not know the command would be 2.
const hookSettings = `  {
    "hooks": {
      "PreToolUse": [
        {
          "matcher": "*",
          "hooks": [
            {"type": "command", "command": "tatara-ledger hook budget --enforce || exit 1", "timeout": 10}
          ]
        }
      ],
      "UserPromptSubmit": [
        {
          "hooks": [
            {"type": "command", "command": "tatara-ledger hook budget --enforce || exit 1", "timeout": 10}
          ]
        }
      ]
    }
  }`

// run answers in any case; an error is bad usage, or stdout that is gone.
func (h *hookBudget) run(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	if h.fail != failOpen && h.fail != failClosed {
		return fmt.Errorf("unknown --fail %q: want %s or %s", h.fail, failOpen, failClosed)
	}
	if h.timeout <= 0 {
		return fmt.Errorf("--timeout %s: must be positive", h.timeout)
	}
	in, unread := readHookInput(stdin, h.timeout)
	a := h.answer(ctx, in, h.ask)
	if unread != nil {
		a.Message = hookText(joinNotes(a.Message, "tatara-ledger: "+unread.Error()+"; is this command run by a hook?"))
	}
	return a.write(stdout)
}

func joinNotes(a, b string) string {
	if a == "" {
		return b
	}
	return a + " " + b
}

// answer is what the agent is told. What goes wrong in it, a defect of ours
// included, is no reason to stop the agent otherwise than --fail says.
func (h *hookBudget) answer(ctx context.Context, in hookInput, ask func(context.Context, string) (*wire.Task, error)) (a hookAnswer) {
	task := cmp.Or(h.task, os.Getenv(taskVariable))
	defer func() {
		if p := recover(); p != nil { // it would exit with 2
			a = h.failed(in.Event, task, fmt.Errorf("internal error: %v", p))
		}
	}()
	if task == "" {
		if !firstTime(h.notes, in.Session, "no task") {
			return hookAnswer{}
		}
		return hookAnswer{Message: "tatara-ledger: no budget is checked, for the task is not known: set " + taskVariable + " or give --task."}
	}
	t, err := ask(ctx, task)
	switch {
	case unknownTask(err): // it has not spent yet
		return hookAnswer{}
	case err != nil:
		return h.failed(in.Event, task, err)
	}
	switch t.State {
	case "ok":
		return hookAnswer{}
	case "warn":
		return tell(in.Event, hookText("Budget warning: "+standing(t)+" Finish what matters most, and start nothing large."))
	case "exceeded":
		text := "Budget exceeded: " + standing(t)
		if h.enforce {
			return deny(in.Event, hookText(text+" Nothing more may be spent on it: stop, and say where the work stands. An administrator can raise the task's ceiling."))
		}
		return tell(in.Event, hookText(text+" STOP as soon as nothing is left half done, and say where the work stands: every further turn is over the budget."))
	}
	return h.failed(in.Event, task, fmt.Errorf("the answer has the unknown state %q; is this the URL of a ledger, and of this version?", t.State))
}

// unknownTask is the 404 that says so, not that of a server that has no such
// route.
func unknownTask(err error) bool {
	var e *envelope.Error
	return errors.Is(err, client.ErrNotFound) && errors.As(err, &e) && e.Field == "task"
}

func (h *hookBudget) failed(event, task string, err error) hookAnswer {
	text := "tatara-ledger: the budget of task " + task + " could not be checked"
	if h.fail == failClosed {
		return deny(event, hookText(text+", and nothing may be spent unchecked (--fail closed). Try again later. The reason: "+err.Error()))
	}
	return hookAnswer{Message: hookText(text + ", and the agent goes on unchecked: " + err.Error())}
}

// ask asks the service once: a tool call waits. Who would rather be denied than
// go on unchecked has the question repeated, as long as there is time.
func (h *hookBudget) ask(ctx context.Context, task string) (*wire.Task, error) {
	cfg, err := h.client.config()
	if err != nil {
		return nil, err
	}
	if h.fail == failOpen {
		cfg.Attempts = 1
	}
	c, err := client.NewWithConfig(cfg)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	t, err := c.Task(ctx, task)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("no answer within %s: %w", h.timeout, err)
	}
	return t, remedy(err)
}
