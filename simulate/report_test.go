package simulate

import (
	"strings"
	"testing"
)

func TestReportText(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := Report{Requests: 10, Acknowledged: 6, Transport: 1, Retried: 2, Copies: 3, Rejected: map[int]int{503: 2, 400: 1}, Lives: 4, Unacknowledged: 2, Uncertain: 1, Seconds: 2}
	if err := r.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	want := `10 requests in 2.0 s (5/s): 6 acknowledged, 1 without an answer, 2 retried, 3 sent twice
1 answered 400
2 answered 503
4 lives, 2 not acknowledged to their end; of 1 of them more may have been kept than was acknowledged
`
	if out.String() != want {
		t.Errorf("%s", out.String())
	}
	if (Report{}).PerSecond() != 0 {
		t.Error("requests per no time")
	}
}
