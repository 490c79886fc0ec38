package receive

import (
	"net/http"

	"github.com/szymonrychu/tatara-ledger/collector/usage"
)

const feedCall = string(usage.FeedCall)

// Calls receives posted calls: one JSON object, an array, or one object per
// line. Good calls are kept and bad ones named: 200 if any was accepted, 400
// if none was. A call with an id that was seen before counts once.
func (r *Receiver) Calls(w http.ResponseWriter, req *http.Request) {
	post(r, w, req, posting[usage.Event]{
		feed: feedCall, plural: "calls",
		reader: func() func([]byte, *usage.Event) error {
			return (&callReader{objectReader: r.objects("a call"), interned: map[string]string{}}).read
		},
		facts: func(events []usage.Event) *usage.Facts { return &usage.Facts{Events: events} },
	})
}
