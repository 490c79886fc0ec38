package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// initialise makes the cluster where there is none. It is made beside its place
// and renamed, so that what was begun and not finished is never used.
func (p *postgres) initialise(ctx context.Context) error {
	_, err := os.Stat(filepath.Join(p.data, "PG_VERSION"))
	if err == nil {
		return p.folder.account.chownTree(p.data)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking for the Postgres data: %w", err)
	}
	if entries, err := os.ReadDir(p.data); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is neither empty nor Postgres data: move it away, or choose another --%s", p.data, FlagDataDir)
	}

	half := p.data + ".half"
	if err := os.RemoveAll(half); err != nil {
		return fmt.Errorf("removing a half-made Postgres: %w", err)
	}
	if err := makeFolder(half, 0o700); err != nil {
		return fmt.Errorf("creating the folder of Postgres: %w", err)
	}
	if err := p.folder.account.chown(half); err != nil {
		return err
	}
	if err := p.initdb(ctx, half); err != nil {
		return fmt.Errorf("making a new Postgres: %w", err)
	}
	if err := os.Rename(half, p.data); err != nil { // over an empty folder too
		return fmt.Errorf("putting the new Postgres into place: %w", err)
	}
	return nil
}

func (p *postgres) initdb(ctx context.Context, dir string) error {
	// initdb reads the password as the engines' user, from a copy of its own.
	// Inside the folder it would be taken for data, so it lies beside.
	file := p.folder.join("secrets", ".initdb")
	if err := writeFile(file, []byte(p.address.Password.Reveal()+"\n"), 0o600); err != nil {
		return fmt.Errorf("handing over the password: %w", err)
	}
	defer os.Remove(file) //nolint:errcheck // replaced by the next attempt, and 0600
	if err := p.folder.account.chown(file); err != nil {
		return err
	}
	initdb := p.command("initdb",
		"-D", dir,
		"--username="+postgresUser,
		"--pwfile="+file,
		"--auth=scram-sha-256",
		"--encoding=UTF8",
		// Sorts by code point, the same on every machine and under every libc.
		"--locale=C",
		"--locale-provider=builtin",
		"--builtin-locale=C.UTF-8",
		"--data-checksums",
	)
	initdb.onParentDeath = syscall.SIGKILL // what it made is of no use
	return runProcess(ctx, initdb, newRelay(p.log, parseInitdb))
}
