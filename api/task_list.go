package api

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"slices"
	"strings"

	"github.com/szymonrychu/tatara-ledger/alerts/evaluate"
	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/api/wire"
)

// taskOrders are what tasks can be sorted by, the highest first.
var taskOrders = map[string]func(*evaluate.Standing) uint64{
	"cost":   func(s *evaluate.Standing) uint64 { return uint64(max(s.Total.Cost.Nano, 0)) },
	"tokens": func(s *evaluate.Standing) uint64 { return s.Total.Tokens },
	"rate":   func(s *evaluate.Standing) uint64 { return uint64(max(s.PerHour, 0)) },
	"recent": func(s *evaluate.Standing) uint64 { return uint64(max(s.LastSpend.Unix(), 0)) },
	"share": func(s *evaluate.Standing) (most uint64) {
		for m := range s.Measures() {
			most = max(most, m.Percent())
		}
		return most
	},
}

// taskList is which tasks are asked for.
type taskList struct {
	state, project, repo, kind string
	order                      string
	limit                      int
	after                      *taskPlace // nil: the first page
}

// taskPlace is a task's place in an order: by value, then by name.
type taskPlace struct {
	value uint64
	name  string
}

func (p taskPlace) compare(o taskPlace) int {
	return cmp.Or(cmp.Compare(o.value, p.value), strings.Compare(p.name, o.name))
}

// listTasks answers GET /v1/tasks. A task whose figures change between two pages
// may be in both or in neither.
func (s *server) listTasks(w http.ResponseWriter, r *http.Request) error {
	q, err := parseTaskList(r)
	if err != nil {
		return err
	}
	all, at, err := s.tasks.All()
	if err != nil {
		return err
	}
	type ranked struct {
		taskPlace
		standing *evaluate.Standing
	}
	// The page and one more, which tells whether there is a next one.
	var page []ranked
	for standing := range all {
		if !q.wants(&standing) {
			continue
		}
		place := taskPlace{taskOrders[q.order](&standing), standing.Name}
		if q.after != nil && place.compare(*q.after) <= 0 {
			continue
		}
		i, _ := slices.BinarySearchFunc(page, place, func(r ranked, p taskPlace) int { return r.compare(p) })
		if i > q.limit {
			continue
		}
		kept := standing
		page = slices.Insert(page, i, ranked{place, &kept})
		page = page[:min(len(page), q.limit+1)]
	}
	answer := wire.Tasks{Tasks: []wire.Task{}, AsOf: at.UTC()}
	for _, r := range page[:min(len(page), q.limit)] {
		answer.Tasks = append(answer.Tasks, wireTask(r.standing))
	}
	if answer.Count = len(answer.Tasks); len(page) > q.limit {
		next := q.cursor(page[q.limit-1].taskPlace)
		answer.Next = &next
	}
	envelope.JSON(w, http.StatusOK, answer)
	return nil
}

func (q *taskList) wants(s *evaluate.Standing) bool {
	return (q.state == "" || q.state == string(s.State)) && (q.project == "" || q.project == s.Project) &&
		(q.repo == "" || q.repo == s.Repo) && (q.kind == "" || q.kind == s.Kind)
}

func parseTaskList(r *http.Request) (q taskList, err error) {
	p, err := parameters(r, "state", "project", "repo", "kind", "sort", "limit", "after")
	if err != nil {
		return q, err
	}
	q = taskList{state: p.get("state"), project: p.get("project"), repo: p.get("repo"), kind: p.get("kind"), order: cmp.Or(p.get("sort"), "cost")}
	if states := []string{"", string(evaluate.OK), string(evaluate.Warn), string(evaluate.Exceeded)}; !slices.Contains(states, q.state) {
		return q, envelope.BadField("state", "is none of a task", "use ok, warn or exceeded")
	}
	if taskOrders[q.order] == nil {
		return q, envelope.BadField("sort", "is no order of tasks", "use cost, tokens, rate, recent or share")
	}
	if q.limit, err = p.limit(); err != nil {
		return q, err
	}
	if after, ok := p["after"]; ok {
		place, ok := q.place(after)
		if !ok {
			return q, envelope.BadField("after", "is no next of an earlier page in this order", "pass next on as it came, with the same sort")
		}
		q.after = &place
	}
	return q, nil
}

// cursor is a place in the list's order, opaque to clients.
func (q *taskList) cursor(p taskPlace) string {
	b := binary.BigEndian.AppendUint64([]byte(q.order+"\x00"), p.value)
	return base64.RawURLEncoding.EncodeToString(append(b, p.name...))
}

func (q *taskList) place(cursor string) (p taskPlace, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return p, false
	}
	rest, ok := strings.CutPrefix(string(b), q.order+"\x00")
	if !ok || len(rest) < 8 {
		return p, false
	}
	return taskPlace{binary.BigEndian.Uint64([]byte(rest[:8])), rest[8:]}, true
}
