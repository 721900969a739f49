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

// How many tokens are remembered in each of two generations, and how long they are together: what one says takes as much memory as
// it is long, and a few times that when it is many short texts.
const (
	maxKnown  = 2048
	maxLength = 2 << 20
)

// known remembers what tokens with a good signature say: to check that takes longer than most else that is done for a small
// request, and the one who sends the most requests brings the same token each time. A token is known by its hash. For when it is
// good, and whether its key still is, is looked at each time.
type known struct {
	mu         sync.Mutex // guards the fields below
	young, old map[[sha256.Size]byte]*verified
	length     int // of the young
}

// verified is what a token says.
type verified struct {
	length int // of the token
	header jose.Header
	key    any // that has checked its signature
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

// keep remembers v, and forgets those that nobody has brought while a whole generation of others was. The caller holds mu.
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
