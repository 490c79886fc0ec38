package auth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	// fetchTimeout bounds each request to the provider, and so how long a
	// caller waits while it hangs.
	fetchTimeout = 5 * time.Second
	// fetchBytes bounds its answers; key sets with certificate chains have some
	// tens of KiB.
	fetchBytes = 1 << 20
)

// newClient is the client for the provider.
func newClient(cfg Config) (*http.Client, error) {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the default transport was replaced")
	}
	base = base.Clone()
	base.DisableKeepAlives = true // the next request comes in minutes
	if cfg.CAFile != "" {
		pool, err := trust(cfg.CAFile)
		if err != nil {
			return nil, err
		}
		base.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &http.Client{
		Transport: &bounded{base: base, encrypted: strings.HasPrefix(cfg.Issuer, "https:")},
		Timeout:   fetchTimeout,
	}, nil
}

func trust(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading --oidc-ca-file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("reading --oidc-ca-file: %s holds no PEM certificate", file)
	}
	return pool, nil
}

// bounded bounds what a server may answer, and keeps keys of a provider that is
// reached over TLS from being fetched without it, be it by a redirect.
type bounded struct {
	base      http.RoundTripper
	encrypted bool
}

func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.encrypted && r.URL.Scheme != "https" {
		return nil, errors.New("the provider refers from https to " + r.URL.Scheme)
	}
	res, err := b.base.RoundTrip(r)
	if err == nil {
		res.Body = http.MaxBytesReader(nil, res.Body, fetchBytes)
	}
	return res, err
}
