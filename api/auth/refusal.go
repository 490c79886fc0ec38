package auth

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/szymonrychu/tatara-ledger/api/envelope"
)

// refusal is why a request is not let in.
type refusal struct {
	result string
	code   string // error attribute of RFC 6750; empty: none
	scope  Scope  // that was needed, if that was it
	answer envelope.Error
}

func (r *refusal) Error() string { return r.answer.Error() }

// Unwrap is the answer, so that envelope.Fail finds it.
func (r *refusal) Unwrap() error { return &r.answer }

// missing is a request without a bearer token, to which RFC 6750 gives no error
// code.
func missing(message string) *refusal {
	return &refusal{
		result: resultMissing,
		answer: envelope.Error{
			Status: http.StatusUnauthorized, Message: message,
			Hint: "send the header Authorization: Bearer <token>",
		},
	}
}

func invalid(result, message, hint string) *refusal {
	return &refusal{
		result: result, code: "invalid_token",
		answer: envelope.Error{Status: http.StatusUnauthorized, Message: message, Hint: hint},
	}
}

func unavailable() *refusal {
	return &refusal{
		result: resultUnavailable,
		answer: envelope.Error{
			Status: http.StatusServiceUnavailable, Message: "the token cannot be verified: the identity provider does not answer",
			Hint: "try again; if it lasts, see the service's log", Retry: fetchEvery,
		},
	}
}

func lacks(scope Scope) *refusal {
	return &refusal{
		result: resultScope, code: "insufficient_scope", scope: scope,
		answer: envelope.Error{
			Status: http.StatusForbidden, Message: fmt.Sprintf("the token lacks the scope %s", scope),
			Hint: "use a token with this scope, or have it granted to this one",
		},
	}
}

// write answers with the refusal.
func (r *refusal) write(w http.ResponseWriter) {
	r.challenge(w)
	envelope.Fail(w, r)
}

// challenge sets the header of RFC 6750, section 3, where the answer has one.
func (r *refusal) challenge(w http.ResponseWriter) {
	if r.answer.Status != http.StatusUnauthorized && r.answer.Status != http.StatusForbidden {
		return
	}
	var b strings.Builder
	b.WriteString(`Bearer realm="tatara-ledger"`)
	if r.code != "" {
		// Our messages are plain ASCII without the quotes and backslashes that
		// the attribute forbids.
		fmt.Fprintf(&b, `, error="%s", error_description="%s"`, r.code, r.answer.Message)
	}
	if r.scope != "" {
		fmt.Fprintf(&b, `, scope="%s"`, r.scope)
	}
	w.Header().Set("WWW-Authenticate", b.String())
}
