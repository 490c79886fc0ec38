package simulate

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/szymonrychu/tatara-ledger/collector/pricing"
)

// Config describes a fleet and how it is sent. Start from [DefaultConfig].
type Config struct {
	// PushURLs are the receivers. The requests of a pod go round them in turn,
	// a repeated request to the next one. At least one; a query is refused,
	// since wrappers write their own.
	PushURLs []string

	// Seed determines everything that is sent, and the names of the pods.
	Seed uint64
	// Pods is how many pods there are. Default 40.
	Pods int
	// Kinds are dealt to the pods in turn. Default: six of the platform's.
	Kinds []string
	// Repos are drawn by the pods. "" is drawn only by kinds that work on no
	// single repository (brainstorm, refine, incident, triageIssue), unless
	// there is no other.
	Repos []string
	// Projects are drawn by the pods.
	Projects []string
	// Models: reviews and triage run mostly on the first whose name contains
	// "sonnet", the others on the first with "opus"; every seventh pod takes
	// the next of the list, beginning with the last, so that each is used. A model that is not in the
	// price book is simulated and unpriced.
	Models []string
	// Turns bounds the turns of a life. Default 6. 0: no pod finishes a turn.
	Turns int
	// Respawns bounds how often a pod comes back under its run id. Default 2,
	// at most 7; 0: never.
	Respawns int

	// Interval lies between two pushes of a pod. Default 20 ms; a real wrapper
	// has 15 s. 0: the next follows the answer to the last.
	Interval time.Duration
	// Concurrency is how many pods live at once; with Shuffle, how many
	// requests are in flight at once. Default 16. Too high for the machine:
	// latency, no more throughput.
	Concurrency int
	// Timeout bounds one request. Default 10 s. Too low: what was received
	// counts as failed.
	Timeout time.Duration
	// Duplicate sends every request twice, byte for byte: the copy right away,
	// or after one or two further requests of the pod. A copy is the network's
	// doing: it is not counted by the push counter, and never repeated.
	Duplicate bool
	// Shuffle lets all pods live at once, and deals which pod pushes next at
	// random by the seed. The order within a pod is kept: one whose turn comes
	// while its last request is still out holds up the others.
	Shuffle bool
	// UntilAcknowledged repeats the last snapshot of each life, byte for byte,
	// until it is acknowledged; the pod waits meanwhile. Transport errors, 5xx,
	// 408 and 429 are repeated with backoff, other answers are final. Earlier
	// snapshots that fail are lost, as those of a real wrapper are.
	UntilAcknowledged bool
	// BackoffMin and BackoffMax bound the pause before a repetition, which
	// doubles and is jittered; Retry-After is heeded up to BackoffMax.
	// Defaults 10 ms and 1 s.
	BackoffMin, BackoffMax time.Duration
	// Patience bounds the repetitions of one snapshot. Default 2 min; then the
	// life ends unacknowledged. 0: as long as the context lives.
	Patience time.Duration
	// Gap is for how long no new request is begun once half of them have been,
	// so that a receiver can be restarted unheard. Default 0: none.
	Gap time.Duration

	// Before, if not nil, is called before each request is sent, and may block
	// to hold it. After is called with the outcome. Both are called by many
	// goroutines at once.
	Before func(ctx context.Context, r Request)
	After  func(r Request, o Outcome)

	// Prices price the truth. Default: the shipped book.
	Prices *pricing.Book
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		PushURLs:    []string{"http://127.0.0.1:8082/internal/metrics/push"},
		Seed:        1,
		Pods:        40,
		Kinds:       []string{"implement", "review", "brainstorm", "refine", "incident", "triageIssue"},
		Repos:       []string{"widgets", "gears", "sprockets", ""},
		Projects:    []string{"demo", "tatara"},
		Models:      []string{"claude-opus-4-8", "claude-sonnet-5", "claude-haiku-4-5"},
		Turns:       6,
		Respawns:    2,
		Interval:    20 * time.Millisecond,
		Concurrency: 16,
		Timeout:     10 * time.Second,
		BackoffMin:  10 * time.Millisecond,
		BackoffMax:  time.Second,
		Patience:    2 * time.Minute,
	}
}

// The bounds keep a mistyped flag from filling the memory: a plan takes some
// kilobytes per pod.
const (
	maxPods  = 100_000
	maxTurns = 1000
)

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(c.PushURLs) == 0 {
		wrong("no push URL")
	}
	for _, u := range c.PushURLs {
		if err := checkURL(u); err != nil {
			errs = append(errs, err)
		}
	}
	for _, n := range []struct {
		name          string
		value, lo, hi int
	}{
		{"pods", c.Pods, 1, maxPods},
		{"turns", c.Turns, 0, maxTurns},
		{"respawns", c.Respawns, 0, len(signatures) - 1},
		{"concurrency", c.Concurrency, 1, 1024},
	} {
		if n.value < n.lo || n.value > n.hi {
			wrong("%s is %d: want %d to %d", n.name, n.value, n.lo, n.hi)
		}
	}
	for name, list := range map[string][]string{"kinds": c.Kinds, "repos": c.Repos, "projects": c.Projects, "models": c.Models} {
		if len(list) == 0 {
			wrong("no %s", name)
		}
	}
	if slices.Contains(c.Models, "") {
		wrong("a model has no name: a wrapper calls it unknown")
	}
	if c.Interval < 0 || c.Gap < 0 || c.Patience < 0 || c.Timeout <= 0 {
		wrong("a negative interval, gap or patience, or no timeout")
	}
	if c.BackoffMin <= 0 || c.BackoffMax < c.BackoffMin {
		wrong("backoff from %s to %s: want 0 < min ≤ max", c.BackoffMin, c.BackoffMax)
	}
	return errors.Join(errs...)
}

func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		return fmt.Errorf("reading the push URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
		return fmt.Errorf("push URL %q: want http(s)://host/path without a query", s)
	}
	return nil
}
