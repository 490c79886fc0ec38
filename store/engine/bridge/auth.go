package bridge

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
)

// authenticate finds the account of a request: basic authentication, else the
// X-ClickHouse-User and X-ClickHouse-Key headers, else the user and password
// parameters; a missing name means "default", as in ClickHouse.
func (s *Server) authenticate(r *http.Request) (restricted bool, name string, err error) {
	name, password, ok := r.BasicAuth()
	if !ok {
		name, password = r.Header.Get("X-ClickHouse-User"), r.Header.Get("X-ClickHouse-Key")
		if name == "" && password == "" {
			values := r.URL.Query()
			name, password = values.Get("user"), values.Get("password")
		}
	}
	if name == "" {
		name = "default"
	}
	owner := matches(s.config.Owner, name, password)
	reader := matches(s.config.Restricted, name, password) && s.config.Restricted.Name != ""
	if !owner && !reader {
		return false, "", exceptionf(codeAuthentication, "Authentication failed: password is incorrect, or there is no such user")
	}
	return !owner, name, nil
}

// matches compares in constant time, lengths included.
func matches(a Account, name, password string) bool {
	return equal(a.Name, name)&equal(a.Password, password) == 1
}

func equal(a, b string) int {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:])
}
