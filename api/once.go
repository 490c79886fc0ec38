package api

import (
	"crypto/sha256"
	"fmt"
	"net/http"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/store"
)

const (
	idempotencyKey = "Idempotency-Key"
	// replayedHeader tells an answer that an earlier request made.
	replayedHeader = "Idempotent-Replayed"
	// maxIdempotencyKey bounds the header in bytes.
	maxIdempotencyKey = 255
)

// onceOf is what the request's Idempotency-Key asks for; nil without one.
// operation is the route with its ids, the same under every prefix. Conditions
// are part of what the key stands for.
func onceOf(h http.Header, operation string, body []byte) (*store.Once, error) {
	keys := h.Values(idempotencyKey)
	if len(keys) == 0 {
		return nil, nil //nolint:nilnil // a nil Once asks for nothing
	}
	key := keys[0]
	if len(keys) > 1 || key == "" || len(key) > maxIdempotencyKey || !printable(key) {
		return nil, envelope.BadField(idempotencyKey, "is not one value of 1 to 255 printable ASCII characters", "send a UUID")
	}
	conditions := fmt.Sprintf("%q %q\n", h.Values(ifMatch), h.Values(ifNoneMatch))
	hash := sha256.Sum256(append([]byte(conditions), body...))
	return &store.Once{Key: key, Operation: operation, Hash: hash[:]}, nil
}
