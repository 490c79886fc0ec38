package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ErrInUse says that another process, or another Journal of this one, has the
// folder. Two writers would destroy each other's segments.
var ErrInUse = errors.New("journal is in use by another process")

// lockFile is not removed: a file that another process made meanwhile under
// the same name would be another lock.
const lockFile = "lock"

// lock takes the folder. The kernel gives it back when the process ends,
// however it ends.
func lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the journal's folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the journal: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%w: %s", ErrInUse, dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking the journal: %w", err), f.Close())
	}
	return f, nil
}
