package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// folder is the data folder, held by this process.
//
//	lock                 who holds it
//	ports/               the engines' ports
//	secrets/             one password a file
//	clickhouse/          ClickHouse's data
//	clickhouse.pid       its process
//	postgres/            Postgres's data
//
// Everything is closed to other users. When root starts the engines, the folder
// itself and secrets/ have mode 0711 instead of 0700, so that the account that
// runs the engines can pass through; it owns the data folders and its own
// password files, and may not list or read the rest.
type folder struct {
	path    string
	account *account
	lock    *os.File
}

// openFolder creates the data folder where it is missing and takes its lock.
func openFolder(path, userName string) (_ *folder, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("resolving the data folder: %w", err)
	}
	passable := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		passable = 0o711
	}
	if err := makeFolder(path, passable); err != nil {
		return nil, fmt.Errorf("creating the data folder: %w", err)
	}
	// Resolved, so that one folder has one name: an old child is known by it.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, fmt.Errorf("resolving the data folder: %w", err)
	}
	f := &folder{path: path}
	if f.account, err = engineAccount(os.Geteuid(), userName, f.join("postgres"), f.join("clickhouse")); err != nil {
		return nil, err
	}
	if err := f.account.reach(path); err != nil {
		return nil, fmt.Errorf("checking --%s: %w", FlagDataDir, err)
	}
	if f.lock, err = lockFolder(f.join("lock")); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	if err := makeFolder(f.join("secrets"), passable); err != nil {
		return nil, fmt.Errorf("creating the folder of passwords: %w", err)
	}
	if err := makeFolder(f.join("ports"), 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder of ports: %w", err)
	}
	return f, nil
}

func (f *folder) join(elem ...string) string {
	return filepath.Join(append([]string{f.path}, elem...)...)
}

// close gives the folder up. The lock file stays: removing it would let two
// processes lock two files of one name.
func (f *folder) close() { _ = f.lock.Close() }

// data creates the data folder of one engine and gives it to the account.
func (f *folder) data(name string) (string, error) {
	path := f.join(name)
	if err := makeFolder(path, 0o700); err != nil {
		return "", fmt.Errorf("creating the data folder of %s: %w", name, err)
	}
	return path, f.account.chownTree(path)
}

// makeFolder creates path with mode, whatever the umask is, and missing folders
// above it with 0755. A folder that exists keeps its mode.
func makeFolder(path string, mode fs.FileMode) error {
	if info, err := os.Stat(path); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is not a folder", path)
		}
		return nil
	}
	if parent := filepath.Dir(path); parent != path {
		if err := makeFolder(parent, 0o755); err != nil {
			return err
		}
	}
	err := os.Mkdir(path, mode)
	if errors.Is(err, fs.ErrExist) {
		return nil // another process made it meanwhile
	}
	if err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// ErrInUse is wrapped by Start's error when another process holds the data
// folder.
var ErrInUse = errors.New("in use by another process")

// lockFolder takes the lock, or says who has it. The kernel drops the lock with
// its holder, so there are no stale ones.
func lockFolder(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the data folder: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		raw, _ := io.ReadAll(f)
		_ = f.Close()
		holder := strings.TrimSpace(string(raw))
		if holder == "" {
			holder = "not written yet"
		}
		return nil, fmt.Errorf("locking the data folder %s: %w (pid %s); stop it, or choose another --%s",
			filepath.Dir(path), ErrInUse, holder, FlagDataDir)
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	return f, nil
}
