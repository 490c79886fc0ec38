package evaluate

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An Alertmanager that was away notifies at once of what began long ago: it must
// know what inhibits it by then.
func TestTheOrderInWhichThresholdsAreSent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.watch()
		r := w.start(limits)
		pass(offBeat)
		var names []string
		for i := range 20 {
			names = append(names, fmt.Sprint("t", i))
			w.spend(worth(names[i], 9))
		}
		order := func() string {
			r.mu.Lock()
			defer r.mu.Unlock()
			var sent strings.Builder
			for _, m := range r.sent {
				sent.WriteString(m.Labels["threshold"] + " ")
			}
			r.sent = nil
			return sent.String()
		}
		pass(time.Second)
		order()
		r.recovered <- struct{}{} // so that all are sent at once
		synctest.Wait()
		if got := order(); got != strings.Repeat("80 ", 20)+strings.Repeat("50 ", 20) {
			t.Errorf("firing: %s", got)
		}
		for _, name := range names {
			w.end(name)
		}
		pass(settle + 2*time.Second)
		if got := order(); got != strings.Repeat("50 ", 20)+strings.Repeat("80 ", 20) {
			t.Errorf("resolved: %s", got)
		}
	})
}
