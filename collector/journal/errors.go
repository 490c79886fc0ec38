package journal

import "errors"

// Sentinels of the journal, to be tested with [errors.Is].
var (
	// ErrFull says that the journal had no room within [Config.FullWait]. The
	// record is not stored. The caller should ask its client to retry later.
	ErrFull = errors.New("journal is full")
	// ErrClosed says that the journal is closed. The record is not stored.
	ErrClosed = errors.New("journal is closed")
	// ErrTooLarge says that a record is longer than [Config.MaxRecordBytes].
	// Retrying cannot help.
	ErrTooLarge = errors.New("record is too large for the journal")
	// ErrDisk says that writing or syncing failed. Whether the record is stored
	// is unknown: it was not acknowledged and must be sent again. Later appends
	// may succeed, they go to another file.
	ErrDisk = errors.New("journal cannot write to its disk")
	// ErrPosition says that a commit names a record that was never handed out.
	ErrPosition = errors.New("position was not handed out by the journal")
)
