package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A reading command makes no data folder.
func TestReadMissingFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "typo")
	for _, name := range []string{"report", "verify"} {
		root := newRootCommand()
		root.SetArgs([]string{name, "--data-dir", dir})
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "no ledger in --data-dir") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s made the folder", name)
		}
	}
}
