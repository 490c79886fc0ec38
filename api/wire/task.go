package wire

import (
	"encoding/json"
	"time"
)

// Task is what a task spent and how it stands to its ceiling.
type Task struct {
	Task    string `json:"task"`
	Project string `json:"project"`
	Repo    string `json:"repo"`
	Kind    string `json:"kind"`
	Issue   string `json:"issue"`
	Model   string `json:"model"` // that most was spent on
	// State is ok, warn (80 % of a limit or more) or exceeded.
	State string `json:"state"`
	TaskAmounts
	UnpricedTokens uint64 `json:"unpriced_tokens"` // which cost_usd lacks
	Subagents      uint64 `json:"subagents"`       // most in one session
	Approximate    bool   `json:"approximate"`
	Estimated      bool   `json:"estimated"`
	// Hour is the last 12 buckets of five minutes and the current one.
	Hour           TaskAmounts `json:"hour"`
	CostPerHourUSD string      `json:"cost_per_hour_usd"` // at the rate of the last hour
	FirstSpendAt   time.Time   `json:"first_spend_at"`
	LastSpendAt    time.Time   `json:"last_spend_at"` // to five minutes
	EndedAt        *time.Time  `json:"ended_at"`      // null: nobody said so
	Quiet          bool        `json:"quiet"`         // over, since it spends nothing any more
	Ceiling        TaskCeiling `json:"ceiling"`
	// LimitReachedAt is when the first limit of the whole task is reached at that
	// rate; null: none will be, or one is.
	LimitReachedAt *time.Time `json:"limit_reached_at"`
	// Turns are there where a feed counts them.
	Turns *TaskTurns `json:"turns,omitempty"`
	AsOf  time.Time  `json:"as_of"` // by the ledger's clock
}

// TaskAmounts are what was spent in some time.
type TaskAmounts struct {
	CostUSD      *string `json:"cost_usd"` // null: nothing of it is known
	Tokens       uint64  `json:"tokens"`   // of all classes
	OutputTokens uint64  `json:"output_tokens"`
	Runs         uint64  `json:"runs"`
}

// TaskTurns are the turns of a task.
type TaskTurns struct {
	Count      uint64       `json:"count"`
	ByResult   []TurnResult `json:"by_result"` // by name
	LastAt     *time.Time   `json:"last_at"`
	LastResult string       `json:"last_result"`
}

// TurnResult is how many turns ended in one way.
type TurnResult struct {
	Result string `json:"result"`
	Count  uint64 `json:"count"`
}

// TaskCeiling is what limits a task. A null limit is none.
type TaskCeiling struct {
	USD          *string `json:"usd"`
	Tokens       *uint64 `json:"tokens"`
	OutputTokens *uint64 `json:"output_tokens"`
	Exempt       bool    `json:"exempt"`
	// Limits are all limits, those per hour, of runs and of subagents included.
	Limits []TaskLimit `json:"limits"`
}

// TaskLimit is one limit and how far the task is.
type TaskLimit struct {
	Limit   string `json:"limit"` // as the file of ceilings names it, such as task.usd
	Value   string `json:"value"` // dollars, tokens or a count
	Of      string `json:"of"`
	Percent uint64 `json:"percent"` // rounded down
	Source  string `json:"source"`  // the file and line, or the override
}

// Tasks is the answer of GET /v1/tasks.
type Tasks struct {
	Tasks []Task    `json:"tasks"`
	Count int       `json:"count"`
	Next  *string   `json:"next"` // null at the end
	AsOf  time.Time `json:"as_of"`
}

// CeilingWrite is the body of PUT /v1/tasks/{task}/ceiling. It replaces what was
// set before; what is null or left out is as configured.
type CeilingWrite struct {
	USD          *Dollars `json:"usd"`
	Tokens       *int64   `json:"tokens"`
	OutputTokens *int64   `json:"output_tokens"`
	Exempt       bool     `json:"exempt"`
}

// Dollars is an amount in decimal. A request may have it as a number or, so that
// none of it is lost on the way, as a string; an answer has a string.
type Dollars string

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Dollars) UnmarshalJSON(b []byte) error {
	var text string
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		*d = Dollars(text)
		return nil
	}
	var number json.Number
	if err := json.Unmarshal(b, &number); err != nil {
		return err
	}
	*d = Dollars(number)
	return nil
}

// CeilingOverride is what is set for one task.
type CeilingOverride struct {
	Task         string    `json:"task"`
	USD          *string   `json:"usd"`
	Tokens       *int64    `json:"tokens"`
	OutputTokens *int64    `json:"output_tokens"`
	Exempt       bool      `json:"exempt"`
	SetBy        string    `json:"set_by"`
	SetAt        time.Time `json:"set_at"`
	RequestID    string    `json:"request_id"`
}

// CeilingOverrides is the answer of GET /v1/tasks/{task}/ceiling: what is set,
// and what was, the newest first.
type CeilingOverrides struct {
	CeilingOverride
	Changes []CeilingOverride `json:"changes"`
}

// TaskEnd is the answer of POST /v1/tasks/{task}/end.
type TaskEnd struct {
	Task    string    `json:"task"`
	EndedAt time.Time `json:"ended_at"`
	EndedBy string    `json:"ended_by"`
}
