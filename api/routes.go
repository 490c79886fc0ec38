package api

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/szymonrychu/tatara-ledger/api/auth"
)

// routes registers routes, each under the scope that it needs.
type routes struct {
	r chi.Router
	// browsers may reach the listener: bodies must be of a type that a web page
	// cannot send without asking.
	browsers bool
}

func (t routes) get(pattern string, h http.HandlerFunc) {
	t.r.With(auth.Require(auth.Read)).Get(pattern, h)
}

func (t routes) post(pattern string, h http.HandlerFunc) { t.body(auth.Write).Post(pattern, h) }

func (t routes) admin(method, pattern string, h http.HandlerFunc) {
	t.body(auth.Admin).Method(method, pattern, h)
}

func (t routes) delete(pattern string, h http.HandlerFunc) {
	t.r.With(auth.Require(auth.Write)).Delete(pattern, h)
}

// poll is a GET that may write: its handler learns from the parameters which
// scope it needs, and demands that.
func (t routes) poll(pattern string, h http.HandlerFunc) { t.r.Get(pattern, h) }

func (t routes) body(scope auth.Scope) chi.Router {
	if t.browsers {
		return t.r.With(demandJSON, auth.Require(scope))
	}
	return t.r.With(auth.Require(scope))
}

// ledgerRoutes are the routes of what was spent.
func (s *server) ledgerRoutes(t routes) {
	t.get("/v1/spend", s.handle(s.spend))
	t.get("/v1/sources", s.handle(s.sources))
	t.get("/v1/handoffs/stats", s.handle(s.handoffStats))
	s.taskRoutes(t)
	t.body(auth.Ingest).Post("/v1/calls", s.receiver.Calls)
	t.body(auth.Ingest).Put("/v1/runs/{run}", s.receiver.Run)
	t.body(auth.Ingest).Post("/v1/outcomes", s.receiver.Outcomes)
	t.body(auth.Ingest).Post("/v1/annotations", s.receiver.Annotations)
}

// chatRoutes are the routes of handoffs and rooms.
func (s *server) chatRoutes(t routes) {
	s.handoffRoutes(t)
	s.roomRoutes(t)
}

// everyoneIsLocal identifies callers where none is asked who it is.
func everyoneIsLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(auth.With(r.Context(), auth.Local())))
	})
}
