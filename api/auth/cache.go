package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// cacheFor bounds how long a token is not verified again. Verifying one
	// costs some 80 µs, finding it here one, and an agent makes many requests
	// with a token.
	cacheFor = time.Minute
	// cacheTokens bounds the memory: some 200 bytes each.
	cacheTokens = 8192
)

type fingerprint [sha256.Size]byte

// cache remembers verified tokens by their hash.
type cache struct {
	mu     sync.Mutex
	tokens map[fingerprint]verified
}

type verified struct {
	id    Identity
	until time.Time
	keys  fingerprint // that verified it: others do not vouch for it
}

func newCache() *cache { return &cache{tokens: map[fingerprint]verified{}} }

func (c *cache) find(token, keys fingerprint, now time.Time) (Identity, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.tokens[token]
	if !ok {
		return Identity{}, false
	}
	if v.keys != keys || !now.Before(v.until) {
		delete(c.tokens, token)
		return Identity{}, false
	}
	return v.id, true
}

// add takes only what was verified, so that nobody fills the cache with
// rubbish. A full cache gives up any one token.
func (c *cache) add(token fingerprint, v verified) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.tokens) >= cacheTokens {
		for old := range c.tokens {
			delete(c.tokens, old)
			break
		}
	}
	c.tokens[token] = v
}
