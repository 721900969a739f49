package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/batonrun/baton/runtime"
)

// Idempotency returns the runtime's form of an Idempotency-Key, nil without one. Its scope is the caller's project and user, the
// method, the path as in the request, and the key; keys are the values of the header, bodyHash is the Hash of the body.
func Idempotency(c runtime.Caller, method, path string, keys [][]byte, bodyHash string) (*runtime.Idempotency, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	if len(keys) > 1 || !validKey(keys[0]) {
		return nil, Refuse("invalid_idempotency_key", "Idempotency-Key must be 1 to %d visible characters", maxKey)
	}
	scope, err := json.Marshal([]string{c.Project(), c.Actor(), method, path, string(keys[0])})
	if err != nil {
		return nil, err
	}
	return &runtime.Idempotency{Scope: Hash(scope), BodyHash: bodyHash}, nil
}

// maxKey is how long an Idempotency-Key may be.
const maxKey = 255

func validKey(key []byte) bool {
	for _, b := range key {
		if b < '!' || b > '~' {
			return false
		}
	}
	return len(key) > 0 && len(key) <= maxKey
}

// Hash identifies a body by its bytes.
func Hash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
