package jwt

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"sync"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/batonrun/baton/transports/auth"
)

// The number of tokens in each of two generations, and the bytes of both. The memory of a token is its length, and a few times that
// for many short texts.
const (
	maxKnown  = 2048
	maxLength = 2 << 20
)

// known caches verified tokens by their hash: checking a signature costs more than the rest of a small request, and busy clients
// send the same token each time. The times of a token and its key's validity are checked each time.
type known struct {
	mu         sync.Mutex // guards the fields below
	young, old map[[sha256.Size]byte]*verified
	length     int // of the young
}

// verified is the content of a token.
type verified struct {
	length int // of the token
	header jose.Header
	key    any // that has checked its signature
	keyID  string
	std    jwt.Claims
	id     auth.Identity
}

func (k *known) get(sum [sha256.Size]byte) *verified {
	k.mu.Lock()
	defer k.mu.Unlock()
	if v := k.young[sum]; v != nil {
		return v
	}
	v := k.old[sum]
	if v != nil {
		k.keep(sum, v)
	}
	return v
}

func (k *known) put(sum [sha256.Size]byte, v *verified) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keep(sum, v)
}

// keep caches v, and drops tokens that were not used during a whole generation of others. The caller holds mu.
func (k *known) keep(sum [sha256.Size]byte, v *verified) {
	if k.young == nil || len(k.young) >= maxKnown || k.length+v.length > maxLength {
		k.old, k.young, k.length = k.young, make(map[[sha256.Size]byte]*verified), 0
	}
	if k.young[sum] == nil {
		k.length += v.length
	}
	k.young[sum] = v
}

// same reports whether two keys are the same.
func same(a, b any) bool {
	if secret, ok := a.([]byte); ok {
		other, ok := b.([]byte)
		return ok && bytes.Equal(secret, other)
	}
	key, ok := a.(interface{ Equal(x crypto.PublicKey) bool })
	return ok && key.Equal(b)
}
