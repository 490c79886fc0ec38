package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// hookTask is a task of a state, with figures that fit it.
func hookTask(state string) wire.Task {
	percent := map[string]uint64{"ok": 20, "warn": 80, "exceeded": 101}[state]
	spent := map[string]string{"ok": "5", "warn": "20.104", "exceeded": "25.3"}[state]
	at := time.Date(2026, 11, 30, 13, 10, 0, 0, time.UTC)
	t := wire.Task{
		Task: "acme/widgets#7", State: state, CostPerHourUSD: "4.2", AsOf: at.Add(-70 * time.Minute),
		TaskAmounts: wire.TaskAmounts{CostUSD: &spent, Tokens: 1200},
		Ceiling: wire.TaskCeiling{Limits: []wire.TaskLimit{
			{Limit: "hour.runs", Value: "1", Of: "6", Percent: 16},
			{Limit: "task.usd", Value: spent, Of: "25", Percent: percent},
		}},
	}
	if state == "warn" {
		t.LimitReachedAt = &at
	}
	return t
}

// hookServices are all that may answer, or not.
func hookServices(t *testing.T) map[string]http.HandlerFunc {
	t.Helper()
	services := map[string]http.HandlerFunc{
		"unknown task": func(w http.ResponseWriter, _ *http.Request) {
			envelope.Fail(w, &envelope.Error{Status: 404, Field: "task", Message: "not found"})
		},
		"no such route": func(w http.ResponseWriter, _ *http.Request) {
			envelope.Fail(w, &envelope.Error{Status: 404, Message: "no such route"})
		},
		"another server": http.NotFound,
		"no JSON":        func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"another JSON":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") },
		"hangs": func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		},
		"hangs up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	for _, state := range []string{"ok", "warn", "exceeded"} {
		services[state] = func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || r.URL.EscapedPath() != "/v1/tasks/acme%2Fwidgets%237" {
				t.Errorf("%s %s", r.Method, r.URL.EscapedPath())
			}
			envelope.JSON(w, 200, hookTask(state))
		}
	}
	for _, status := range []int{400, 401, 403, 500, 503} {
		services[fmt.Sprint(status)] = func(w http.ResponseWriter, _ *http.Request) {
			envelope.Fail(w, &envelope.Error{Status: status, Message: "failing"})
		}
	}
	return services
}

// runHook runs "tatara-ledger hook budget" as Claude Code does.
func runHook(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := newHookBudgetCommand()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Errorf("%q: %v", args, err)
	}
	if stderr.Len() > 0 {
		t.Errorf("%q on stderr", &stderr)
	}
	return stdout.String()
}

// heard is what Claude Code makes of an output, by its documentation and not by
// our types: any other key or value than it has for the event is an error.
func heard(t *testing.T, event, out string) (denied bool, person, model string) {
	t.Helper()
	if out == "" {
		return false, "", ""
	}
	if strings.Count(out, "\n") != 1 || !strings.HasSuffix(out, "\n") {
		t.Errorf("not one line: %q", out)
	}
	var top map[string]any
	if err := json.Unmarshal([]byte(out), &top); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	text := func(m map[string]any, key string) string {
		v, there := m[key]
		s, ok := v.(string)
		if there && (!ok || s == "") {
			t.Errorf("%s is %v", key, v)
		}
		delete(m, key)
		return s
	}
	person = text(top, "systemMessage")
	if _, there := top["decision"]; there {
		if event != "UserPromptSubmit" && event != "" {
			t.Errorf("%s has no decision", event)
		}
		if d := text(top, "decision"); d != "block" {
			t.Errorf("decision %q", d)
		}
		denied, person = true, joinNotes(text(top, "reason"), person)
	}
	if specific, ok := top["hookSpecificOutput"].(map[string]any); ok {
		delete(top, "hookSpecificOutput")
		if name := text(specific, "hookEventName"); name != event {
			t.Errorf("hookEventName %q at %q", name, event)
		}
		if event != "PreToolUse" && event != "UserPromptSubmit" {
			t.Errorf("%q has no output of its own", event)
		}
		model = text(specific, "additionalContext")
		if event == "PreToolUse" && specific["permissionDecision"] != nil {
			if d := text(specific, "permissionDecision"); d != "deny" {
				t.Errorf("permissionDecision %q", d)
			}
			denied, model = true, text(specific, "permissionDecisionReason")
		}
		if len(specific) > 0 {
			t.Errorf("more in hookSpecificOutput: %v", specific)
		}
	}
	if len(top) > 0 {
		t.Errorf("more in the output: %v", top)
	}
	if denied && person == "" {
		t.Errorf("denied without a word: %s", out)
	}
	return denied, person, model
}

// TestHookBudget: every answer of a service, at every event, with all flags.
func TestHookBudget(t *testing.T) {
	t.Parallel()
	inputs := map[string]string{
		"PreToolUse":       `{"session_id":"s","hook_event_name":"PreToolUse","cwd":"/w","tool_name":"Write","tool_input":{"content":"x"}}`,
		"UserPromptSubmit": `{"session_id":"s","hook_event_name":"UserPromptSubmit","prompt":"go on"}`,
		"Stop":             `{"session_id":"s","hook_event_name":"Stop"}`,
		"":                 `{"hook_event_name":`,
	}
	known := []string{"ok", "warn", "exceeded", "unknown task"}
	for service, handler := range hookServices(t) {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(handler)
			t.Cleanup(server.Close)
			for event, input := range inputs {
				for _, enforce := range []bool{false, true} {
					for _, closed := range []bool{false, true} {
						name := fmt.Sprintf("%q enforce=%t closed=%t", event, enforce, closed)
						args := []string{"--url", server.URL, "--task", "acme/widgets#7", fmt.Sprintf("--enforce=%t", enforce)}
						if service == "hangs" || closed && !slices.Contains(known, service) {
							args = append(args, "--timeout", "300ms")
						} else {
							args = append(args, "--timeout", "1m")
						}
						if closed {
							args = append(args, "--fail", "closed")
						}
						out := runHook(t, input, args...)
						denied, person, model := heard(t, event, out)

						failing := !slices.Contains(known, service)
						wantDenied := event != "Stop" && (service == "exceeded" && enforce || failing && closed)
						if denied != wantDenied {
							t.Errorf("%s: denied = %t: %s", name, denied, out)
						}
						silent := (service == "ok" || service == "unknown task") && event != ""
						if (person == "") != silent {
							t.Errorf("%s: the person is told %q", name, person)
						}
						spent := service == "warn" || service == "exceeded"
						toModel := (spent || failing && closed) && (event == "PreToolUse" || event == "UserPromptSubmit" && !denied)
						if (model != "") != toModel {
							t.Errorf("%s: the model is told %q", name, model)
						}
						if spent && !strings.Contains(person, "of $25.00") {
							t.Errorf("%s: no numbers in %q", name, person)
						}
						if failing && !strings.Contains(person, "acme/widgets#7 could not be checked") {
							t.Errorf("%s: the person is told %q", name, person)
						}
						if event == "" && !strings.Contains(person, "reading the hook's input") {
							t.Errorf("%s: no word of the input in %q", name, person)
						}
					}
				}
			}
		})
	}
}

func TestHookBudgetTexts(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{
		"warn": `{"systemMessage":"Budget warning: task acme/widgets#7 has spent $20.10 of $25.00 (80 %). At $4.20 an hour, the limit of the whole task is reached in 1 h 10 min, at 2026-11-30 13:10:00 UTC. Finish what matters most, and start nothing large.",` +
			`"hookSpecificOutput":{"hookEventName":"PreToolUse","additionalContext":"Budget warning: task acme/widgets#7 has spent $20.10 of $25.00 (80 %). At $4.20 an hour, the limit of the whole task is reached in 1 h 10 min, at 2026-11-30 13:10:00 UTC. Finish what matters most, and start nothing large."}}`,
		"exceeded": `{"systemMessage":"Budget exceeded: task acme/widgets#7 has spent $25.30 of $25.00 (101 %). Nothing more may be spent on it: stop, and say where the work stands. An administrator can raise the task's ceiling.",` +
			`"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"Budget exceeded: task acme/widgets#7 has spent $25.30 of $25.00 (101 %). Nothing more may be spent on it: stop, and say where the work stands. An administrator can raise the task's ceiling."}}`,
	} {
		server := httptest.NewServer(hookServices(t)[state])
		defer server.Close()
		if got := runHook(t, `{"hook_event_name":"PreToolUse"}`, "--url", server.URL, "--task", "acme/widgets#7", "--enforce"); got != want+"\n" {
			t.Errorf("%s:\n%s", state, got)
		}
	}
}

func TestHookStanding(t *testing.T) {
	t.Parallel()
	spent := "3.1"
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		change func(*wire.Task)
		want   string
	}{
		"tokens, and the highest first": {func(t *wire.Task) {
			t.Ceiling.Limits = []wire.TaskLimit{
				{Limit: "task.usd", Value: "3.1", Of: "25", Percent: 12},
				{Limit: "task.output_tokens", Value: "1600000", Of: "2000000", Percent: 80},
				{Limit: "hour.tokens", Value: "79000000", Of: "80000000", Percent: 98},
				{Limit: "session.subagents", Value: "40", Of: "50", Percent: 80},
			}
		}, "task t has spent $3.10 in all, 79,000,000 of 80,000,000 tokens in the last hour (98 %), 1,600,000 of 2,000,000 output tokens (80 %), 40 of 50 subagents in one session (80 %)."},
		"marks and unpriced tokens": {func(t *wire.Task) {
			t.Approximate, t.Estimated, t.UnpricedTokens = true, true, 12000
			t.Ceiling.Limits = []wire.TaskLimit{{Limit: "hour.usd", Value: "9", Of: "10", Percent: 90}}
		}, "task t has spent ?~$3.10 in all, ?~$9.00 of $10.00 in the last hour (90 %). 12,000 tokens have no price and are not in the dollars."},
		"nothing priced": {func(t *wire.Task) {
			t.CostUSD = nil
			t.Ceiling.Limits = []wire.TaskLimit{{Limit: "task.runs", Value: "20", Of: "20", Percent: 100}}
		}, "task t has spent an unknown amount in all, 20 of 20 runs (100 %)."},
		"a service that warns earlier": {func(t *wire.Task) {
			t.Ceiling.Limits = []wire.TaskLimit{{Limit: "task.runs", Value: "1", Of: "20", Percent: 5}, {Limit: "task.usd", Value: "3.1", Of: "6", Percent: 51}}
		}, "task t has spent $3.10 of $6.00 (51 %)."},
		"no limits at all": {func(*wire.Task) {}, "task t has spent $3.10 in all."},
		"very soon": {func(t *wire.Task) {
			soon := at.Add(20 * time.Second)
			t.LimitReachedAt = &soon
		}, "task t has spent $3.10 in all. At $5.00 an hour, the limit of the whole task is reached in less than a minute, at 2026-11-30 12:00:20 UTC."},
	} {
		task := wire.Task{Task: "t", TaskAmounts: wire.TaskAmounts{CostUSD: &spent}, CostPerHourUSD: "5", AsOf: at}
		tt.change(&task)
		if got := standing(&task); got != tt.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	for d, want := range map[time.Duration]string{time.Minute: "1 min", 59*time.Minute + 40*time.Second: "1 h 0 min", 49 * time.Hour: "2 days"} {
		if got := roughly(d); got != want {
			t.Errorf("%v: %q", d, got)
		}
	}
}

// TestHookWithoutTask: a word once per session, and the agent goes on, even
// with --fail closed.
func TestHookWithoutTask(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv(taskVariable, "")
	told := func(input string) string {
		t.Helper()
		denied, person, model := heard(t, "PreToolUse", runHook(t, input, "--enforce", "--fail", "closed", "--url", "http://127.0.0.1:1"))
		if denied || model != "" {
			t.Errorf("denied %t, model %q", denied, model)
		}
		return person
	}
	for i, session := range []string{"a", "a", "../b", "../b", "a"} {
		person := told(`{"session_id":"` + session + `","hook_event_name":"PreToolUse"}`)
		if first := i == 0 || i == 2; strings.Contains(person, taskVariable) != first {
			t.Errorf("call %d: %q", i, person)
		}
	}
	for range 2 { // nobody to remember
		if person := told(`{"hook_event_name":"PreToolUse"}`); person == "" {
			t.Error("silent")
		}
	}
	t.Setenv("TMPDIR", t.TempDir()+"/gone")
	for range 2 {
		if person := told(`{"session_id":"a","hook_event_name":"PreToolUse"}`); person == "" {
			t.Error("silent")
		}
	}
}

func TestHookTaskOfEnvironment(t *testing.T) {
	t.Setenv(taskVariable, "from the pod")
	var asked string
	h := hookBudget{fail: failOpen, notes: t.TempDir()}
	ask := func(_ context.Context, task string) (*wire.Task, error) {
		asked = task
		return &wire.Task{State: "ok"}, nil
	}
	if a := h.answer(t.Context(), hookInput{Event: eventTool}, ask); asked != "from the pod" || a != (hookAnswer{}) {
		t.Errorf("asked for %q: %+v", asked, a)
	}
	h.task = "from the flag"
	if h.answer(t.Context(), hookInput{Event: eventTool}, ask); asked != "from the flag" {
		t.Errorf("asked for %q", asked)
	}
}

// TestHookDefect: a panic would exit with 2, which blocks the agent.
func TestHookDefect(t *testing.T) {
	t.Parallel()
	ask := func(context.Context, string) (*wire.Task, error) { panic("oh") }
	for fail, closed := range map[string]bool{failOpen: false, failClosed: true} {
		h := hookBudget{task: "t", fail: fail, notes: t.TempDir()}
		var out bytes.Buffer
		if err := h.answer(t.Context(), hookInput{Event: eventTool}, ask).write(&out); err != nil {
			t.Error(err)
		}
		denied, person, _ := heard(t, eventTool, out.String())
		if denied != closed || !strings.Contains(person, "internal error: oh") {
			t.Errorf("%s: denied %t, %q", fail, denied, person)
		}
	}
}

// TestHookInput: whatever comes, or does not come, the task is asked for.
func TestHookInput(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(hookServices(t)["exceeded"])
	t.Cleanup(server.Close)
	for name, input := range map[string]string{
		"nothing": "", "text": "hello", "a list": "[]", "null": "null", "a number as the event": `{"hook_event_name":1}`,
		"no event": "{}", "two": `{"hook_event_name":"Stop"}{}`, "bytes": "\x00\xff", "deep": strings.Repeat("[", 100_000),
	} {
		denied, person, _ := heard(t, "", runHook(t, input, "--url", server.URL, "--task", "acme/widgets#7", "--enforce"))
		if !denied || !strings.Contains(person, "reading the hook's input") || !strings.Contains(person, "of $25.00") {
			t.Errorf("%s: denied %t, %q", name, denied, person)
		}
	}
	r, w := io.Pipe() // never ends, as a terminal
	t.Cleanup(func() { _ = w.Close() })
	if _, err := readHookInput(r, time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not end within 1ms") {
		t.Error(err)
	}
	// A tool may write a large file, whose content comes along.
	large := `{"tool_input":"` + strings.Repeat("x", 5<<20) + `","hook_event_name":"PreToolUse"}`
	if in, err := readHookInput(strings.NewReader(large), time.Minute); err != nil || in.Event != eventTool {
		t.Errorf("%+v, %v", in, err)
	}
}

// TestHookPatience: one attempt, but as many as there is time for with --fail
// closed.
func TestHookPatience(t *testing.T) {
	t.Parallel()
	for fail, want := range map[string]int{failOpen: 1, failClosed: 2} {
		requests := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if requests++; requests == 1 {
				envelope.Fail(w, &envelope.Error{Status: 503, Message: "restarting"})
				return
			}
			envelope.JSON(w, 200, hookTask("ok"))
		}))
		defer server.Close()
		out := runHook(t, `{"hook_event_name":"PreToolUse"}`, "--url", server.URL, "--task", "t", "--fail", fail, "--timeout", "1m")
		if denied, _, _ := heard(t, eventTool, out); denied || requests != want {
			t.Errorf("%s: %d requests, %q", fail, requests, out)
		}
	}
}

// TestHookTextIsPlain: what others named must not act on a terminal, nor be
// longer than Claude Code takes.
func TestHookTextIsPlain(t *testing.T) {
	t.Parallel()
	got := hookText("a\x1b[31m\nb\u202e\xff" + strings.Repeat("ü", 3*maxHookText))
	if strings.ContainsAny(got, "\x1b\n\u202e") || len([]rune(got)) != maxHookText || !strings.HasSuffix(got, "ü…") {
		t.Errorf("%q", got)
	}
}

// TestHookExit: no command line of a hook exits with 2, which blocks.
func TestHookExit(t *testing.T) {
	for name, args := range map[string][]string{
		"flag":           {"hook", "budget", "--bogus"},
		"value":          {"hook", "budget", "--timeout", "2"},
		"no time":        {"hook", "budget", "--timeout", "0s"},
		"fail":           {"hook", "budget", "--fail", "half"},
		"argument":       {"hook", "budget", "x"},
		"hook":           {"hook", "bogus"},
		"flag of hook":   {"hook", "--bogus"},
		"format of root": {"hook", "budget", "--enforce=maybe"},
	} {
		var out bytes.Buffer
		if err := run(t.Context(), args, &out, &out); err == nil || exitCode(err) != 1 || out.Len() > 0 {
			t.Errorf("%s: exit code %d, %v, %q", name, exitCode(err), err, &out)
		}
	}
	t.Setenv("TATARA_LEDGER_TIMEOUT", "soon")
	var out bytes.Buffer
	if err := run(t.Context(), []string{"hook", "budget"}, &out, &out); err == nil || exitCode(err) != 1 || !strings.Contains(err.Error(), "TATARA_LEDGER_TIMEOUT") {
		t.Errorf("environment: exit code %d, %v", exitCode(err), err)
	}
	for _, args := range [][]string{{"bogus"}, {"report", "--bogus"}, {"handoff", "get", "hook", "--bogus"}} {
		if err := run(t.Context(), args, &out, &out); err == nil || exitCode(err) != 2 {
			t.Errorf("%q: exit code %d, %v", args, exitCode(err), err)
		}
	}
}

func TestHookSettings(t *testing.T) {
	t.Parallel()
	var settings struct {
		Hooks map[string][]struct {
			Matcher *string
			Hooks   []struct {
				Type, Command string
				Timeout       int
			}
		}
	}
	dec := json.NewDecoder(strings.NewReader(hookSettings))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&settings); err != nil {
		t.Fatal(err)
	}
	if len(settings.Hooks) != 2 || len(settings.Hooks[eventTool]) != 1 || len(settings.Hooks[eventPrompt]) != 1 {
		t.Errorf("%+v", settings)
	}
	for _, groups := range settings.Hooks {
		args := strings.Fields(groups[0].Hooks[0].Command)
		if cmd, _, err := newRootCommand().Find(args[1:3]); err != nil || cmd.Name() != "budget" {
			t.Errorf("%q: %v", args, err)
		}
	}
}
