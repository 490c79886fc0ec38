package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// disk is what the journal needs of a file system. Tests put faults behind it.
type disk interface {
	// Create creates a file that must not exist, for writing.
	Create(path string) (writeFile, error)
	// Open opens a file for reading.
	Open(path string) (readFile, error)
	ReadDir(path string) ([]os.DirEntry, error)
	Rename(from, to string) error
	Remove(path string) error
	// Truncate cuts a file and syncs it.
	Truncate(path string, size int64) error
	// SyncDir makes creations, renames and removals in a folder durable.
	SyncDir(path string) error
}

type writeFile interface {
	io.WriteCloser
	Sync() error
}

type readFile interface {
	io.ReaderAt
	io.Closer
	Stat() (os.FileInfo, error)
}

// osDisk is the operating system's.
type osDisk struct{}

func (osDisk) Create(path string) (writeFile, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osDisk) Open(path string) (readFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osDisk) ReadDir(path string) ([]os.DirEntry, error) { return os.ReadDir(path) }

func (osDisk) Rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) Remove(path string) error { return os.Remove(path) }

func (osDisk) Truncate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Sync(), f.Close())
}

func (osDisk) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// replaceFile writes a small file so that after a crash either the old or the
// new content is there.
func replaceFile(d disk, dir, path string, content []byte) error {
	tmp := path + ".tmp"
	if err := d.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing an old temporary file: %w", err)
	}
	f, err := d.Create(tmp)
	if err != nil {
		return fmt.Errorf("creating a temporary file: %w", err)
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing a temporary file: %w", err)
	}
	if err := d.Rename(tmp, path); err != nil {
		return fmt.Errorf("renaming a temporary file: %w", err)
	}
	if err := d.SyncDir(dir); err != nil {
		return fmt.Errorf("syncing the folder: %w", err)
	}
	return nil
}
