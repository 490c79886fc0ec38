package engine

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// The engines come from npm because it is the one registry that has both, and
// because its lock file pins each by hash.
//
//go:embed npm/package.json npm/package-lock.json
var manifest embed.FS

// ErrNotInstalled is wrapped by Locate's error when the engines are not there.
var ErrNotInstalled = errors.New("the embedded engines are not installed")

// Install makes sure that the engines lie below dir and returns where. Empty
// means DefaultEnginesDir, unless root has installed them for everybody. Where
// they are it does nothing; else it downloads about 200 MB, which become 600 MB,
// and needs npm. It reports progress in lines on progress.
//
// Every set of versions has a folder of its own, which appears as a whole or not
// at all. Installs at the same time, in any processes, wait for each other. Sets
// of other versions stay: a running service may use them.
func Install(ctx context.Context, dir string, progress io.Writer) (Libraries, error) {
	if libs, err := Locate(dir); err == nil {
		return libs, nil
	}
	if dir == "" {
		dir = DefaultEnginesDir()
	}
	if dir == "" {
		return Libraries{}, fmt.Errorf("no cache folder for the engines, as this user has no home: choose one with --%s", FlagEnginesDir)
	}
	set, err := newSet(dir)
	if err != nil {
		return Libraries{}, err
	}
	npm, err := findNPM()
	if err != nil {
		return Libraries{}, err
	}
	if err := makeFolder(set.parent, 0o755); err != nil {
		return Libraries{}, fmt.Errorf("creating the folder of the engines: %w", err)
	}
	lock, err := waitForLock(ctx, set.path+".lock", progress)
	if err != nil {
		return Libraries{}, err
	}
	defer lock.Close() // which gives the lock up
	if libs, err := set.locate(); err == nil {
		return libs, nil // another install was faster
	}
	if err := set.install(ctx, npm, progress); err != nil {
		return Libraries{}, fmt.Errorf("installing the engines into %s: %w", set.path, err)
	}
	return set.locate()
}

// Locate returns the engines that Install put below dir (empty means
// DefaultEnginesDir, else SystemEnginesDir), or an error that wraps
// ErrNotInstalled and says how to install them.
func Locate(dir string) (Libraries, error) {
	dirs := []string{dir}
	if dir == "" {
		dirs = []string{DefaultEnginesDir(), SystemEnginesDir}
	}
	var errs []error
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		set, err := newSet(dir)
		if err != nil {
			return Libraries{}, err
		}
		libs, err := set.locate()
		if err == nil {
			return libs, nil
		}
		errs = append(errs, err)
	}
	// The first place is the one where an install would go.
	return Libraries{}, fmt.Errorf("%w (%w): run `tatara-ledger engines install`, or configure the addresses of a ClickHouse and a Postgres", ErrNotInstalled, errs[0])
}

// set is one set of versions for one platform.
type set struct {
	parent string // folder of all sets
	path   string // folder of this one, named by its content
	files  map[string][]byte
}

func newSet(dir string) (set, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return set{}, fmt.Errorf("resolving the folder of the engines: %w", err)
	}
	s := set{parent: dir, files: make(map[string][]byte)}
	hash := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json"} {
		content, err := manifest.ReadFile("npm/" + name)
		if err != nil {
			return set{}, fmt.Errorf("reading the list of engines: %w", err)
		}
		s.files[name] = content
		_, _ = hash.Write(content)
	}
	_, _ = io.WriteString(hash, platform())
	s.path = filepath.Join(dir, hex.EncodeToString(hash.Sum(nil))[:16])
	return s, nil
}

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// install makes the set in a folder beside its place and renames that. The
// caller holds the lock of the set.
func (s set) install(ctx context.Context, npm string, progress io.Writer) error {
	half := s.path + ".half"
	if err := os.RemoveAll(half); err != nil {
		return fmt.Errorf("removing a half-made install: %w", err)
	}
	if err := makeFolder(half, 0o755); err != nil {
		return fmt.Errorf("creating the folder: %w", err)
	}
	for name, content := range s.files {
		if err := os.WriteFile(filepath.Join(half, name), content, 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	if err := runNPM(ctx, npm, half, progress); err != nil {
		return err
	}
	if err := linkPostgres(half); err != nil {
		return err
	}
	if err := openTree(half); err != nil {
		return err
	}
	if err := writeReceipt(half); err != nil {
		return err
	}
	// What is there lacks its receipt or files of it: it is not whole.
	if err := os.RemoveAll(s.path); err != nil {
		return fmt.Errorf("removing a damaged install: %w", err)
	}
	if err := os.Rename(half, s.path); err != nil {
		return fmt.Errorf("putting the install into place: %w", err)
	}
	_, _ = fmt.Fprintf(progress, "engines installed in %s\n", s.path)
	return nil
}

// receiptName is the file that says what a whole install contains.
const receiptName = "receipt.json"

// writeReceipt lists the size of every file, so that a loss of power that cuts
// files short, or a cleaner of old files, is noticed.
func writeReceipt(root string) error {
	sizes := make(map[string]int64)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		sizes[rel] = info.Size()
		return err
	})
	if err != nil {
		return fmt.Errorf("listing what was installed: %w", err)
	}
	content, err := json.Marshal(sizes)
	if err != nil {
		return fmt.Errorf("encoding the receipt: %w", err)
	}
	if err := writeFile(filepath.Join(root, receiptName), content, 0o644); err != nil {
		return fmt.Errorf("writing the receipt: %w", err)
	}
	return nil
}

func checkReceipt(root string) error {
	content, err := os.ReadFile(filepath.Join(root, receiptName))
	if err != nil {
		return err
	}
	var sizes map[string]int64
	if err := json.Unmarshal(content, &sizes); err != nil {
		return fmt.Errorf("decoding the receipt: %w", err)
	}
	for rel, size := range sizes {
		info, err := os.Stat(filepath.Join(root, rel))
		if err != nil {
			return err
		}
		if info.Size() != size {
			return fmt.Errorf("%s has %d bytes instead of %d", rel, info.Size(), size)
		}
	}
	return nil
}

// openTree lets every user read the install: it may be run by another than the
// one who made it, and the umask may have been strict.
func openTree(root string) error {
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if entry.IsDir() || mode&0o100 != 0 {
			mode |= 0o111
		}
		if mode == info.Mode().Perm() {
			return nil
		}
		return os.Chmod(path, mode)
	})
	if err != nil {
		return fmt.Errorf("opening the install to every user: %w", err)
	}
	return nil
}

// waitForLock takes a file lock that a process may hold for minutes.
func waitForLock(ctx context.Context, path string, progress io.Writer) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the install: %w", err)
	}
	for told := false; ; told = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if errors.Is(err, syscall.EWOULDBLOCK) {
			if !told {
				_, _ = fmt.Fprintln(progress, "waiting for another install to end")
			}
			err = sleep(ctx, 100*time.Millisecond)
		}
		if err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("waiting for the lock of the install: %w", err)
		}
	}
}
