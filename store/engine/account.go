package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the unprivileged user that runs the engines when the caller is
// root. A nil account means the caller itself runs them.
type account struct {
	name     string
	uid, gid int
}

// engineAccount chooses the account. A caller that is not root has no choice:
// nil. The owner of existing data goes first, so that a folder that a user made
// and root later serves stays that user's.
func engineAccount(euid int, name string, existing ...string) (*account, error) {
	if euid != 0 {
		return nil, nil
	}
	if name != "" {
		return lookupAccount(name)
	}
	for _, path := range existing {
		var stat syscall.Stat_t
		if err := syscall.Stat(path, &stat); err == nil && stat.Uid != 0 {
			return accountOf(int(stat.Uid), int(stat.Gid)), nil
		}
	}
	// postgres before nobody: on many machines several daemons share nobody, and
	// each of them could read what nobody owns.
	for _, candidate := range []string{"tatara-ledger", "postgres", "nobody"} {
		a, err := lookupAccount(candidate)
		if err == nil {
			return a, nil
		}
	}
	return nil, fmt.Errorf("no user to run the engines as: they refuse to run as root, and none of tatara-ledger, postgres and nobody exists; name one with --%s", FlagEnginesUser)
}

func accountOf(uid, gid int) *account {
	a := &account{name: strconv.Itoa(uid), uid: uid, gid: gid}
	if u, err := user.LookupId(a.name); err == nil {
		a.name = u.Username
	}
	return a
}

func lookupAccount(name string) (*account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		var byID error
		if u, byID = user.LookupId(name); byID != nil {
			return nil, fmt.Errorf("looking up the user that runs the engines: %w", err)
		}
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, fmt.Errorf("reading the id of user %s: %w", name, err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, fmt.Errorf("reading the group of user %s: %w", name, err)
	}
	if uid == 0 {
		return nil, fmt.Errorf("user %s is root: the engines refuse to run as root; name another with --%s", name, FlagEnginesUser)
	}
	return &account{name: u.Username, uid: uid, gid: gid}, nil
}

func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// chown gives one file to the account.
func (a *account) chown(path string) error {
	if a == nil {
		return nil
	}
	if err := os.Lchown(path, a.uid, a.gid); err != nil {
		return fmt.Errorf("giving a file to user %s: %w", a.name, err)
	}
	return nil
}

// chownTree gives a folder and all below to the account, unless it has it.
func (a *account) chownTree(root string) error {
	if a == nil {
		return nil
	}
	var stat syscall.Stat_t
	if err := syscall.Stat(root, &stat); err == nil && int(stat.Uid) == a.uid {
		return nil
	}
	// The folder itself comes last: an interrupted walk is then begun again.
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		return a.chown(path)
	})
	if err != nil {
		return fmt.Errorf("giving %s to user %s: %w", root, a.name, err)
	}
	return a.chown(root)
}

// reach reports what keeps the account from reading path: the mode of the file
// itself, or of the first folder above it. It reads modes only: access lists may
// still say otherwise.
func (a *account) reach(path string) error {
	if a == nil {
		return nil
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("resolving a path: %w", err)
	}
	var blocked error
	for dir := path; ; dir = filepath.Dir(dir) {
		var stat syscall.Stat_t
		if err := syscall.Stat(dir, &stat); err != nil {
			return fmt.Errorf("reading the mode of %s: %w", dir, err)
		}
		if !a.passes(&stat) {
			blocked = fmt.Errorf("the engines run as user %s, to whom %s is closed (mode %04o): choose another place, or another user with --%s",
				a.name, dir, uint32(stat.Mode)&0o7777, FlagEnginesUser) //nolint:unconvert // other types elsewhere
		}
		if dir == filepath.Dir(dir) {
			return blocked
		}
	}
}

// passes reports whether the account may enter a folder, or read a file.
func (a *account) passes(stat *syscall.Stat_t) bool {
	mode := uint32(stat.Mode) //nolint:unconvert // as above
	need := uint32(0o4)
	if mode&syscall.S_IFMT == syscall.S_IFDIR {
		need = 0o1
	}
	switch {
	case int(stat.Uid) == a.uid:
		return mode>>6&need != 0
	case int(stat.Gid) == a.gid:
		return mode>>3&need != 0
	default:
		return mode&need != 0
	}
}

// explainStart adds the remedy to the errors that a change of user can cause.
func (a *account) explainStart(err error) error {
	if a != nil && errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("%w (root here may not become user %s: allow CAP_SETUID and CAP_SETGID, or do not start as root)", err, a.name)
	}
	return err
}
