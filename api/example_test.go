package api

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRoomExample runs docs/examples/room.mjs.
func TestRoomExample(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("no node, which the engines are installed with too: ", err)
	}
	s := newService(t, withTokens(t, ""))
	cmd := exec.CommandContext(t.Context(), node, "../docs/examples/room.mjs")
	cmd.Env = append(os.Environ(), "TATARA_LEDGER_URL="+s.url+"/", "TATARA_LEDGER_TOKEN="+tokenOf("all"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const want = `room ID is active
bob reads ann: The lexer is done. Who takes the parser?
bob reads bob: I do.
bob reads ann (direct): Mind the Unicode identifiers.
room is archived, 1 of 2 left it
the log has 3 messages
`
	got := regexp.MustCompile(`room [0-9a-f-]{36}`).ReplaceAllString(string(out), "room ID")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
