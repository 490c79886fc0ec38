package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite the files under testdata")

// suite is what all tests share: the program under test, and a folder.
var suite struct {
	binary, dir string
	starts      chan func() // see startForever
}

func TestMain(m *testing.M) {
	// The tests wait for disks and other processes more than they compute.
	err := flag.Set("test.parallel", "4")
	flag.Parse() // -parallel wins
	code := 1
	if err == nil {
		code, err = run(m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if suite.dir, err = os.MkdirTemp("", "e2e-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(suite.dir)
	// The engines of root run as another user, who must be able to pass.
	if err := os.Chmod(suite.dir, 0o711); err != nil {
		return 1, err
	}
	if err := build(); err != nil {
		return 1, err
	}
	suite.starts = make(chan func())
	go startForever()
	code = m.Run()
	if code == 0 {
		err = goleak.Find(goleak.IgnoreAnyFunction("github.com/szymonrychu/tatara-ledger/e2e.startForever"))
	}
	return code, err
}

// startForever starts processes from one thread that lives as long as the test
// binary: the kernel ends a child when the thread that started it does.
func startForever() {
	runtime.LockOSThread()
	for start := range suite.starts {
		start()
	}
}

// build builds the program as the tests are built, and installs the engines.
func build() error {
	suite.binary = filepath.Join(suite.dir, "tatara-ledger")
	args := []string{"build", "-o", suite.binary}
	if raceDetector {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "github.com/szymonrychu/tatara-ledger/cmd/tatara-ledger")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the program: %w\n%s", err, out)
	}
	cmd = exec.Command(suite.binary, "engines", "install")
	cmd.Env = environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("installing the engines: %w\n%s", err, out)
	}
	return nil
}

// environment is ours without what configures a ledger, apart from where the
// engines are installed.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "TATARA_LEDGER_") && !strings.HasPrefix(v, "TATARA_LEDGER_ENGINES_DIR=")
	})
}

// soak skips a test unless the long ones are wanted.
func soak(t *testing.T) {
	t.Helper()
	if os.Getenv("TATARA_LEDGER_SOAK") != "1" {
		t.Skip("takes very long: run it with make soak (TATARA_LEDGER_SOAK=1)")
	}
}
