package chdb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// LibraryEnv names the file libchdb.so (or libchdb.dylib on macOS) and wins
// over every other place.
const LibraryEnv = "TATARA_LEDGER_CHDB_LIB"

// ErrNoLibrary means that the library is nowhere that Locate looks.
var ErrNoLibrary = errors.New("ClickHouse library not found")

// Package is the npm package that ships the library for this platform, or "".
func Package() string {
	switch runtime.GOOS + "/" + runtime.GOARCH {
	case "linux/amd64":
		return "@chdb/lib-linux-x64-gnu"
	case "linux/arm64":
		return "@chdb/lib-linux-arm64-gnu"
	case "darwin/amd64":
		return "@chdb/lib-darwin-x64"
	case "darwin/arm64":
		return "@chdb/lib-darwin-arm64"
	}
	return ""
}

// Locate finds the library: the file that LibraryEnv names, else the npm
// package of this platform in a node_modules folder of one of the given
// folders, or of the working folder or one above it.
func Locate(folders ...string) (string, error) {
	if path := os.Getenv(LibraryEnv); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("finding the library named by %s: %w", LibraryEnv, err)
		}
		return path, nil
	}
	name := "libchdb.so"
	if runtime.GOOS == "darwin" {
		name = "libchdb.dylib"
	}
	if wd, err := os.Getwd(); err == nil {
		for ; ; wd = filepath.Dir(wd) {
			folders = append(folders, wd)
			if wd == filepath.Dir(wd) {
				break
			}
		}
	}
	for _, folder := range folders {
		path := filepath.Join(folder, "node_modules", filepath.FromSlash(Package()), name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: set %s, or install the npm package %s", ErrNoLibrary, LibraryEnv, Package())
}
