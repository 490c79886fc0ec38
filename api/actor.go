package api

import (
	"net/http"

	"github.com/szymonrychu/tatara-ledger/api/auth"
	"github.com/szymonrychu/tatara-ledger/api/envelope"
	"github.com/szymonrychu/tatara-ledger/store"
)

// actor is who asks. The request id is the one that is answered, so that what
// is stored, logged and seen by the client are joined by the same.
func actor(w http.ResponseWriter, r *http.Request) store.Actor {
	id := auth.From(r.Context())
	return store.Actor{Name: id.Name, Subject: id.Subject, RequestID: w.Header().Get(envelope.RequestIDHeader)}
}
