package auth

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

const (
	// fetchEvery bounds how often the provider is asked for its keys, which
	// anyone can provoke with a token of an unknown key. A rotated key is known
	// after at most that long.
	fetchEvery = 5 * time.Second
	// refreshAfter is when keys are asked for again though all are known, so
	// that a withdrawn one is noticed.
	refreshAfter = 5 * time.Minute
	// rediscoverAfter is when the address of the keys is asked for again.
	rediscoverAfter = time.Hour
)

// keySet is what the provider published at one moment. It never changes.
type keySet struct {
	keys    []jose.JSONWebKey
	digest  [sha256.Size]byte // of the document: equal as long as the keys are
	fetched time.Time
}

// candidates are the keys that may have signed a token with this header.
func (s *keySet) candidates(kid, alg string) []jose.JSONWebKey {
	var found []jose.JSONWebKey
	for _, k := range s.keys {
		if (kid == "" || k.KeyID == kid) && (k.Algorithm == "" || k.Algorithm == alg) {
			found = append(found, k)
		}
	}
	return found
}

// keySource fetches the provider's keys when they are needed.
type keySource struct {
	issuer  string
	client  *http.Client
	log     *slog.Logger
	metrics *metrics
	now     func() time.Time

	set atomic.Pointer[keySet] // nil until the first fetch; kept when later ones fail

	mu         sync.Mutex
	flight     chan struct{} // closed when the fetch under way ends; nil: none is
	notBefore  time.Time     // of the next fetch
	err        error         // of the last fetch
	address    string        // of the keys
	discovered time.Time
}

// current is what is known of the keys. It blocks only until the first fetch
// that succeeds.
func (k *keySource) current(ctx context.Context) (*keySet, error) {
	set := k.set.Load()
	if set == nil {
		return k.after(ctx, nil)
	}
	if k.now().Sub(set.fetched) > refreshAfter {
		k.mu.Lock()
		k.start(ctx)
		k.mu.Unlock()
	}
	return set, nil
}

// after is a set newer than old, fetched unless that was done just now; then it
// is old. It fails while the provider cannot be reached.
func (k *keySource) after(ctx context.Context, old *keySet) (*keySet, error) {
	k.mu.Lock()
	flight := k.flight
	if set := k.set.Load(); set == old && flight == nil {
		flight = k.start(ctx)
	}
	k.mu.Unlock()
	if flight != nil {
		select {
		case <-flight:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	set := k.set.Load()
	if set == old && k.err != nil {
		return nil, k.err
	}
	return set, nil
}

// start starts a fetch, unless one is under way or the last was just now. The
// caller holds mu. A fetch outlives the request that provoked it, since others
// wait for it too; the client's timeout bounds it.
func (k *keySource) start(ctx context.Context) chan struct{} {
	if k.flight != nil || k.now().Before(k.notBefore) {
		return k.flight
	}
	flight := make(chan struct{})
	k.flight = flight
	address := k.address
	rediscover := address == "" || k.err != nil || k.now().Sub(k.discovered) > rediscoverAfter
	go func() {
		var err error
		if rediscover {
			address, err = k.discover(context.WithoutCancel(ctx))
		}
		var set *keySet
		if err == nil {
			set, err = k.get(context.WithoutCancel(ctx), address)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if err == nil && rediscover {
			k.address, k.discovered = address, k.now()
		}
		k.finish(set, err)
		k.flight = nil
		close(flight)
	}()
	return flight
}

// finish takes the result of a fetch over. The caller holds mu.
func (k *keySource) finish(set *keySet, err error) {
	k.notBefore = k.now().Add(fetchEvery)
	was := k.err
	k.err = err
	if err != nil {
		k.metrics.fetches.WithLabelValues("failed").Inc()
		if was == nil { // once per outage
			k.log.Warn("the identity provider's keys cannot be fetched: tokens of unknown keys get a 503", "issuer", k.issuer, "error", err)
		}
		return
	}
	k.metrics.fetches.WithLabelValues("ok").Inc()
	if was != nil {
		k.log.Info("the identity provider answers again", "issuer", k.issuer)
	}
	set.fetched = k.now()
	k.set.Store(set)
}

// discover asks for the address of the keys.
func (k *keySource) discover(ctx context.Context) (string, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, k.client), k.issuer)
	if err != nil {
		return "", fmt.Errorf("discovering the provider: %w", brief(err))
	}
	var document struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&document); err != nil {
		return "", fmt.Errorf("reading the discovery document: %w", err)
	}
	if document.Keys == "" {
		return "", errors.New("the discovery document has no jwks_uri")
	}
	return document.Keys, nil
}

func (k *keySource) get(ctx context.Context, address string) (*keySet, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("addressing the provider's keys: %w", err)
	}
	res, err := k.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetching the provider's keys: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetching the provider's keys: %s answered %s", address, res.Status)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the provider's keys: %w", err)
	}
	return parseKeys(body)
}

// parseKeys reads a key set, and leaves out the keys that are not for verifying
// and those of kinds that we do not know, as RFC 7517 has it.
func parseKeys(body []byte) (*keySet, error) {
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return nil, errors.New("the answer is no JSON key set")
	}
	set := &keySet{digest: sha256.Sum256(body)}
	for _, raw := range document.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) != nil || !key.Valid() || !key.IsPublic() || (key.Use != "" && key.Use != "sig") {
			continue
		}
		if _, shared := key.Key.([]byte); shared {
			continue
		}
		set.keys = append(set.keys, key)
	}
	if len(set.keys) == 0 {
		return nil, errors.New("the provider publishes no key that verifies")
	}
	return set, nil
}

// brief bounds an error that quotes what a server answered.
func brief(err error) error {
	const most = 300
	if text := err.Error(); len(text) > most {
		return errors.New(text[:most] + "…")
	}
	return err
}
