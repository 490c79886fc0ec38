package deliver

import (
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/szymonrychu/tatara-ledger/alerts/alertmanagertest"
)

func receiverOf(t *testing.T, base string) string {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	return "receiver=" + u.Host + u.Path
}

func tasks(alerts []alertmanagertest.Alert) []string {
	var out []string
	for _, a := range alerts {
		out = append(out, a.Labels["task"])
	}
	slices.Sort(out)
	return out
}

// nowhere is the URL of a port at which nobody listens.
func nowhere(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

func TestAlertIsThereOnceAndResolves(t *testing.T) {
	t.Parallel()
	am := alertmanagertest.Start(t, "")
	s := start(t, configOf(am.URL))
	receiver := receiverOf(t, am.URL)
	for _, name := range []string{"delivery_failures_total", "delivered_total", "queue_length"} {
		if v := value(t, s.reg, name, receiver); v != 0 {
			t.Errorf("%s is %v before the first alert, want 0", name, v)
		}
	}
	delivered := func(n float64) func() bool {
		return func() bool { return value(t, s.reg, "delivered_total", receiver) == n }
	}

	sent := firing(1)
	s.Send(sent)
	eventually(t, "the alert", delivered(1))
	got := am.Alerts()
	if len(got) != 1 {
		t.Fatalf("Alertmanager has %d alerts, want 1: %+v", len(got), got)
	}
	if diff := cmp.Diff(sent.Labels, got[0].Labels); diff != "" {
		t.Errorf("labels (-sent +got):\n%s", diff)
	}
	if diff := cmp.Diff(sent.Annotations, got[0].Annotations); diff != "" {
		t.Errorf("annotations (-sent +got):\n%s", diff)
	}
	if !got[0].StartsAt.Equal(sent.StartsAt) || !got[0].EndsAt.Equal(sent.EndsAt.Truncate(time.Millisecond)) || got[0].GeneratorURL != sent.GeneratorURL {
		t.Errorf("got %+v, sent %+v", got[0], sent)
	}
	if want := strconv.FormatUint(sent.fingerprint(), 16); strings.TrimLeft(got[0].Fingerprint, "0") != want {
		t.Errorf("Alertmanager's fingerprint is %s, ours %s", got[0].Fingerprint, want)
	}

	s.Send(sent)
	eventually(t, "the repetition", delivered(2))
	again := am.Alerts()
	for _, a := range [][]alertmanagertest.Alert{got, again} {
		a[0].UpdatedAt = time.Time{}
	}
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("sending it again changed (-before +after):\n%s", diff)
	}

	s.Send(resolved(1))
	eventually(t, "the end", delivered(3))
	if left := am.Alerts(); len(left) != 0 {
		t.Errorf("resolved, and still there: %+v", left)
	}
	if v := value(t, s.reg, "delivery_failures_total", receiver); v != 0 || s.Failing() {
		t.Errorf("%v failures, failing: %v", v, s.Failing())
	}
}

// TestAlertmanagerAwayLosesNone kills it, sends beginnings and ends, and starts
// it again.
func TestAlertmanagerAwayLosesNone(t *testing.T) {
	t.Parallel()
	am := alertmanagertest.Start(t, "")
	s := start(t, configOf(am.URL))
	receiver := receiverOf(t, am.URL)
	s.Send(firing(0))
	eventually(t, "the first alert", func() bool { return len(am.Alerts()) == 1 })

	am.Kill()
	const n = 2 * maxBatch
	for task := range n {
		s.Send(firing(task))
	}
	eventually(t, "a failure", s.Failing)
	s.Send(firing(n), resolved(1))
	eventually(t, "repeated attempts", func() bool { return value(t, s.reg, "delivery_failures_total", receiver) > 1 })
	if v := value(t, s.reg, "queue_length", receiver); v > n+1 {
		t.Errorf("%v alerts wait; there are only %d", v, n+1)
	}
	select {
	case <-s.Recovered():
		t.Error("recovered, and it is away")
	default:
	}

	am.Restart()
	<-s.Recovered()
	if s.Failing() {
		t.Error("recovered, and still failing")
	}
	var want []string
	for task := range n + 1 {
		if task != 1 {
			want = append(want, strconv.Itoa(task))
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, tasks(am.Alerts())); diff != "" {
		t.Errorf("tasks that fire (-want +got):\n%s", diff)
	}
	for _, reason := range []string{reasonFull, reasonRefused, reasonStopped} {
		if v := value(t, s.reg, "dropped_total", "reason="+reason, receiver); v != 0 {
			t.Errorf("%v dropped for %s", v, reason)
		}
	}
	for _, say := range []string{"do not reach", "reach an Alertmanager again"} {
		if c := strings.Count(s.log.String(), say); c != 1 {
			t.Errorf("%q logged %d times, want once in an outage:\n%s", say, c, s.log)
		}
	}
}

func TestOneOfTwoAway(t *testing.T) {
	t.Parallel()
	am, away := alertmanagertest.Start(t, ""), nowhere(t)
	s := start(t, configOf(away+","+am.URL))
	for task := range 10 {
		s.Send(firing(task))
	}
	eventually(t, "all at the one that is there", func() bool { return len(am.Alerts()) == 10 })
	eventually(t, "failing", s.Failing)
	if v := value(t, s.reg, "delivery_failures_total", receiverOf(t, am.URL)); v != 0 {
		t.Errorf("%v failures of the one that is there", v)
	}
	if v := value(t, s.reg, "delivered_total", receiverOf(t, away)); v != 0 {
		t.Errorf("%v delivered to nobody", v)
	}
}

// TestInvalidAlertHoldsUpNoOther sends, among others, one that ends before it
// starts and one that an Alertmanager refuses the whole request for.
func TestInvalidAlertHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	am := alertmanagertest.Start(t, "")
	s := start(t, configOf(am.URL))
	var all []Alert
	for task := range 20 {
		all = append(all, firing(task))
	}
	all[7].StartsAt = all[7].EndsAt.Add(time.Hour)
	all[12].GeneratorURL = "no URL"
	all[13].GeneratorURL = ""
	s.Send(all...)
	receiver := receiverOf(t, am.URL)
	eventually(t, "the refusal", func() bool {
		return value(t, s.reg, "dropped_total", "reason="+reasonRefused, receiver) == 2
	})
	eventually(t, "the others", func() bool { return value(t, s.reg, "delivered_total", receiver) == 18 })
	if got := tasks(am.Alerts()); len(got) != 18 || slices.Contains(got, "7") || slices.Contains(got, "12") {
		t.Errorf("tasks that fire: %v", got)
	}
	// It is counted, but the Alertmanager answers.
	if value(t, s.reg, "delivery_failures_total", receiver) != 2 || s.Failing() {
		t.Errorf("a refusal is counted as a failure; failing: %v", s.Failing())
	}
}

func TestStopFlushes(t *testing.T) {
	t.Parallel()
	am := alertmanagertest.Start(t, "")
	s := start(t, configOf(am.URL))
	for task := range 3 * maxBatch {
		s.Send(firing(task))
	}
	s.stop()
	if n := len(am.Alerts()); n != 3*maxBatch {
		t.Errorf("%d alerts after the stop, want %d", n, 3*maxBatch)
	}
	s.Send(firing(0))
	if v := value(t, s.reg, "dropped_total", "reason="+reasonStopped, receiverOf(t, am.URL)); v != 1 {
		t.Errorf("%v counted as sent after the stop, want 1", v)
	}
}

// TestTwoReplicasOneNotification has two senders send the same alerts, of which
// the Alertmanager tells its receiver once.
func TestTwoReplicasOneNotification(t *testing.T) {
	t.Parallel()
	told := make(chan string, 100)
	hook := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		var m message
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Errorf("reading a notification: %v", err)
		}
		told <- m.Status
	})
	am := alertmanagertest.Start(t, `
route: {receiver: hook, group_by: ['...'], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}
receivers: [{name: hook, webhook_configs: [{url: "`+hook+`", send_resolved: true}]}]
`)
	a, b := start(t, configOf(am.URL)), start(t, configOf(am.URL))
	receiver := receiverOf(t, am.URL)
	delivered := func(n float64, of ...*running) {
		t.Helper()
		for _, s := range of {
			eventually(t, "a delivery", func() bool { return value(t, s.reg, "delivered_total", receiver) == n })
		}
	}
	a.Send(firing(1))
	b.Send(firing(1))
	delivered(1, a, b)
	if got := <-told; got != "firing" {
		t.Fatalf("told of %s first", got)
	}
	a.Send(firing(1))
	b.Send(firing(1))
	delivered(2, a, b)
	end := resolved(1)
	a.Send(end)
	b.Send(end)
	delivered(3, a, b)
	if got := <-told; got != "resolved" {
		t.Fatalf("told of %s after firing", got)
	}
	a.Send(end) // repeated, as by a replica that restarts
	delivered(4, a)
	am.Stop()
	if len(told) > 0 {
		t.Errorf("told again: %s", <-told)
	}
}
