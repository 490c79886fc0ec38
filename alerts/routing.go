package alerts

import (
	"slices"
	"strconv"
	"strings"

	"github.com/szymonrychu/tatara-ledger/alerts/ceiling"
)

// Parts of Alertmanager's configuration that the example uses.
type (
	routing struct {
		Route        route      `yaml:"route"`
		InhibitRules []inhibit  `yaml:"inhibit_rules"`
		Receivers    []receiver `yaml:"receivers"`
	}
	route struct {
		Receiver       string   `yaml:"receiver"`
		Matchers       []string `yaml:"matchers,omitempty"`
		GroupBy        []string `yaml:"group_by,flow,omitempty"`
		GroupWait      string   `yaml:"group_wait,omitempty"`
		GroupInterval  string   `yaml:"group_interval,omitempty"`
		RepeatInterval string   `yaml:"repeat_interval,omitempty"`
		Routes         []route  `yaml:"routes,omitempty"`
	}
	inhibit struct {
		Source []string `yaml:"source_matchers"`
		Target []string `yaml:"target_matchers"`
		Equal  []string `yaml:"equal,flow,omitempty"`
	}
	receiver struct {
		Name     string    `yaml:"name"`
		Webhooks []webhook `yaml:"webhook_configs"`
	}
	webhook struct {
		URL          string `yaml:"url"`
		SendResolved bool   `yaml:"send_resolved"`
	}
)

// TaskUnpriced is the alertname of tasks that use tokens without a price, which
// their ceiling in dollars does not see.
const TaskUnpriced = "TaskUnpricedTokens"

// CeilingAlerts are the alertnames of what the evaluator raises of single tasks.
func CeilingAlerts() []string {
	var all []string
	for _, d := range ceiling.Dimensions() {
		all = append(all, d.Alert())
	}
	return append(all, TaskUnpriced)
}

// Routing is an example of Alertmanager's configuration: alerts of ceilings go
// out within seconds, one notification per threshold, of which the higher
// inhibits the lower; ours of health are grouped by component.
func Routing(o Options) ([]byte, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	const receiverName = "tatara-ledger"
	ceilings := `alertname=~"` + strings.Join(CeilingAlerts(), "|") + `"`
	r := routing{
		Route: route{
			Receiver: receiverName,
			GroupBy:  []string{"alertname", "component"}, GroupWait: "30s", GroupInterval: "5m", RepeatInterval: "12h",
			Routes: []route{{
				Receiver: receiverName,
				Matchers: []string{`system="` + System + `"`, ceilings},
				GroupBy:  []string{"alertname", "project", "repo", "kind", "task", "threshold"},
				// Long enough for the highest of thresholds that are crossed at once
				// to inhibit the others, short enough to page within seconds.
				GroupWait: "2s",
				// How late a resolved notification may be.
				GroupInterval: "10s", RepeatInterval: "24h",
			}},
		},
		Receivers: []receiver{{receiverName, []webhook{{"http://127.0.0.1:9095/alerts", true}}}},
	}
	for i, t := range slices.Backward(o.Thresholds) {
		if i == 0 {
			break
		}
		var lower []string
		for _, l := range o.Thresholds[:i] {
			lower = append(lower, strconv.Itoa(l))
		}
		r.InhibitRules = append(r.InhibitRules, inhibit{
			Source: []string{`system="` + System + `"`, ceilings, `threshold="` + strconv.Itoa(t) + `"`},
			Target: []string{`system="` + System + `"`, `threshold=~"` + strings.Join(lower, "|") + `"`},
			Equal:  []string{"alertname", "project", "repo", "kind", "task"},
		})
	}
	// While the ledger cannot be read, the evaluator says nothing new.
	r.InhibitRules = append(r.InhibitRules, inhibit{
		Source: []string{`alertname="LedgerClickHouseAway"`},
		Target: []string{`alertname=~"LedgerEvaluatorBlind|LedgerOutboxLagging|LedgerRollupFailing"`},
	})
	text, err := encode(r)
	if err != nil {
		return nil, err
	}
	const note = "# An example: put your own receiver in the place of the webhook.\n"
	return slices.Concat([]byte(header+note), text[len(header):]), nil
}
