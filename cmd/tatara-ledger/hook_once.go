package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// firstTime reports whether a session is told something for the first time: an
// empty file of that name remembers it. Where it cannot be remembered, it is
// said again.
func firstTime(dir, session, what string) bool {
	if session == "" {
		return true
	}
	sum := sha256.Sum256([]byte(session + "\x00" + what)) // a session's id is no name of a file
	f, err := os.OpenFile(filepath.Join(dir, "tatara-ledger-hook-"+hex.EncodeToString(sum[:8])), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return !errors.Is(err, fs.ErrExist)
	}
	_ = f.Close() // nothing was written
	return true
}
