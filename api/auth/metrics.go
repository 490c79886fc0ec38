package auth

import "github.com/prometheus/client_golang/prometheus"

// What becomes of a request, the label of tatara_ledger_auth_requests_total.
const (
	resultOK          = "ok"
	resultMissing     = "missing"     // no bearer token
	resultMalformed   = "malformed"   // no token that could be read
	resultUnknown     = "unknown"     // no such static token
	resultAlgorithm   = "algorithm"   // signed by none, a shared secret, or what else we do not take
	resultSignature   = "signature"   // by no key of the issuer
	resultIssuer      = "issuer"      // another issuer's
	resultAudience    = "audience"    // for another service
	resultExpired     = "expired"     //
	resultNotYet      = "not_yet"     // nbf or iat lie in the future
	resultSubject     = "subject"     // no sub
	resultUnavailable = "unavailable" // cannot be verified while the provider is away
	resultScope       = "scope"       // verified, counted as ok too, and then refused
)

var results = [...]string{
	resultOK, resultMissing, resultMalformed, resultUnknown, resultAlgorithm, resultSignature, resultIssuer,
	resultAudience, resultExpired, resultNotYet, resultSubject, resultUnavailable, resultScope,
}

type metrics struct {
	requests *prometheus.CounterVec
	fetches  *prometheus.CounterVec
	reloads  *prometheus.CounterVec
	limited  *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	vec := func(name, help, label string, values ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tatara_ledger_auth_" + name, Help: help}, []string{label})
		reg.MustRegister(c)
		for _, v := range values { // a rate needs the zero before the first event
			c.WithLabelValues(v)
		}
		return c
	}
	return &metrics{
		requests: vec("requests_total", "Requests by what became of their token. One that lacks a scope counts as ok and as scope.", "result", results[:]...),
		fetches:  vec("key_fetches_total", "Requests for the provider's keys, by result.", "result", "ok", "failed"),
		reloads:  vec("tokens_file_reloads_total", "Readings of the changed file of static tokens, by result. After a failed one the old tokens stay.", "result", "ok", "failed"),
		limited:  vec("rate_limited_total", "Requests refused by a rate limit, by which.", "limit", limitRun, limitSubject),
	}
}

// request counts a result; nil counts nothing.
func (m *metrics) request(result string) {
	if m != nil {
		m.requests.WithLabelValues(result).Inc()
	}
}
