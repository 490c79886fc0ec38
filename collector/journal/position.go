package journal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// Position is the number of a record: the first is 1, and numbers are
// continuous. Zero is before the first record.
type Position uint64

const positionName = "position"

// writePosition makes the committed position durable.
func writePosition(d disk, dir string, p Position) error {
	body := fmt.Sprintf("v1 %d", p)
	content := fmt.Sprintf("%s %08x\n", body, crc32.ChecksumIEEE([]byte(body)))
	if err := replaceFile(d, dir, filepath.Join(dir, positionName), []byte(content)); err != nil {
		return fmt.Errorf("storing the position: %w", err)
	}
	return nil
}

// errNoPosition says that the position is absent or unreadable. Nothing is lost
// by that: all records that are still on disk are read again.
var errNoPosition = errors.New("no committed position")

func readPosition(d disk, dir string) (Position, error) {
	f, err := d.Open(filepath.Join(dir, positionName))
	if errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("%w: the file is absent", errNoPosition)
	}
	if err != nil {
		return 0, fmt.Errorf("opening the position: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	b := make([]byte, 64)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("reading the position: %w", err)
	}
	var p Position
	var sum uint32
	if _, err := fmt.Sscanf(string(b[:n]), "v1 %d %08x\n", &p, &sum); err != nil {
		return 0, fmt.Errorf("%w: the file is damaged: %w", errNoPosition, err)
	}
	if sum != crc32.ChecksumIEEE(fmt.Appendf(nil, "v1 %d", p)) {
		return 0, fmt.Errorf("%w: the file is damaged", errNoPosition)
	}
	return p, nil
}
