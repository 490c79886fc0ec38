package usage

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// ID is an identity: the first half of a SHA-256 over what identifies a fact.
// 128 bits make a collision among 10¹⁵ facts less likely than 10⁻⁸.
type ID [16]byte

// Hash is the identity of a list of strings. Each is prefixed with its length,
// so that no two lists share their bytes.
func Hash(parts ...string) ID {
	var buf [512]byte
	b := buf[:0]
	for _, p := range parts {
		b = binary.AppendUvarint(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return ID(sum[:16])
}

// String is the identity in hexadecimal.
func (id ID) String() string { return hex.EncodeToString(id[:]) }
