package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// newHookCommand has the hooks of Claude Code. What they read, print and exit
// with is its contract: JSON on stdin, JSON on stdout with exit code 0. Exit code
// 2 would block the agent, any other is an error that it goes on after.
func newHookCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hook",
		Short: "Hooks of Claude Code, such as the one that asks for the task's budget",
		Args:  cobra.NoArgs,
		// Runnable, so that the name of a hook that does not exist is an error.
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newHookBudgetCommand())
	return cmd
}

// badUsage is the exit code of a command line that is none. A hook must not
// exit with 2: a mistyped flag would block the agent.
func badUsage(cmd *cobra.Command) int {
	for c := cmd; c != nil; c = c.Parent() {
		if c.Name() == "hook" && c.HasParent() && !c.Parent().HasParent() {
			return 1
		}
	}
	return 2
}

// The events that a hook can say no to.
const (
	eventTool   = "PreToolUse"
	eventPrompt = "UserPromptSubmit"
)

// hookInput is what of Claude Code's input we need.
type hookInput struct {
	Session string `json:"session_id"`
	Event   string `json:"hook_event_name"`
}

// maxHookInput bounds what is kept of the input, which holds the whole argument
// of a tool, such as a file to write.
const maxHookInput = 64 << 20

// readHookInput reads the input to its end, as the writer expects, or for as
// long as wait: who runs the command by hand gives it none.
func readHookInput(r io.Reader, wait time.Duration) (hookInput, error) {
	type result struct {
		in  hookInput
		err error
	}
	done := make(chan result, 1)
	go func() { // ends with the input, at the latest with the process
		var out result
		text, err := io.ReadAll(io.LimitReader(r, maxHookInput))
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if out.err = err; err == nil {
			out.err = json.Unmarshal(text, &out.in)
		}
		if out.err == nil && out.in.Event == "" {
			out.err = errors.New("hook_event_name is missing")
		}
		done <- out
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case out := <-done:
		if out.err != nil {
			return hookInput{}, fmt.Errorf("reading the hook's input: %w", out.err)
		}
		return out.in, nil
	case <-timer.C:
		return hookInput{}, fmt.Errorf("reading the hook's input: it did not end within %s", wait)
	}
}

// hookAnswer is what Claude Code reads. The zero value lets the agent go on and
// says nothing.
type hookAnswer struct {
	Decision string        `json:"decision,omitempty"` // block
	Reason   string        `json:"reason,omitempty"`
	Message  string        `json:"systemMessage,omitempty"` // for the person
	Specific *hookSpecific `json:"hookSpecificOutput,omitempty"`
}

type hookSpecific struct {
	Event          string `json:"hookEventName"` // must be that of the input
	Decision       string `json:"permissionDecision,omitempty"`
	DecisionReason string `json:"permissionDecisionReason,omitempty"`
	Context        string `json:"additionalContext,omitempty"` // for the model
}

// tell lets the agent go on, and tells the person and, where the event has a way
// to, the model. It decides nothing: an "allow" would skip the agent's own
// questions for permission.
func tell(event, text string) hookAnswer {
	a := hookAnswer{Message: text}
	if event == eventTool || event == eventPrompt {
		a.Specific = &hookSpecific{Event: event, Context: text}
	}
	return a
}

// deny stops the tool call or the prompt. Of an event that is not known, both
// take the form of the prompt. At any other event "block" may mean to go on, as
// it does at Stop: there it is only told.
func deny(event, reason string) hookAnswer {
	switch event {
	case eventTool:
		return hookAnswer{Message: reason, Specific: &hookSpecific{Event: event, Decision: "deny", DecisionReason: reason}}
	case eventPrompt, "":
		return hookAnswer{Decision: "block", Reason: reason}
	}
	return tell(event, reason)
}

func (a hookAnswer) write(w io.Writer) error {
	if a == (hookAnswer{}) {
		return nil
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(a)
}

// maxHookText is below the 10 000 characters that Claude Code takes.
const maxHookText = 2000

// hookText is one line that is fit to be shown, to a model too.
func hookText(s string) string {
	r := []rune(strings.ToValidUTF8(oneLine(s), "\uFFFD"))
	if len(r) > maxHookText {
		return string(r[:maxHookText-1]) + "…"
	}
	return string(r)
}
