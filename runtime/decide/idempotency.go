package decide

import (
	"encoding/json"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// Key is a client's Idempotency-Key in its scope: project, user, method and path.
type Key struct {
	Scope    string
	BodyHash string
}

// KeyLifetime is how long Baton remembers the answer to a request with an Idempotency-Key.
const KeyLifetime = 24 * time.Hour

// recallAnswer fills in the answer to an equal earlier request and reports whether there was one.
func (d *decision) recallAnswer(key *Key, answer any) (bool, error) {
	if key == nil {
		return false, nil
	}
	old, ok := d.v.Remembered[key.Scope]
	switch known := ok && d.v.Now.Sub(old.CreatedAt) <= KeyLifetime; {
	case !known:
		return false, nil
	case old.BodyHash != key.BodyHash:
		return false, errKeyReused
	case old.RunGone:
		return false, ErrRunNotFound
	}
	return true, json.Unmarshal(old.Answer, answer)
}

// storeAnswer stores the answer to a request.
func (d *decision) storeAnswer(key *Key, runKey int64, answer any) error {
	if key == nil {
		return nil
	}
	raw, err := data.JSON(answer)
	if err != nil {
		return err
	}
	_, expired := d.v.Remembered[key.Scope] // otherwise the answer would have been recalled
	d.put(&data.IdempotencyKey{
		Scope: key.Scope, BodyHash: key.BodyHash, RunKey: runKey, Answer: raw, CreatedAt: d.v.Now, Replaces: expired,
	})
	d.v.Remembered[key.Scope] = data.Remembered{BodyHash: key.BodyHash, RunKey: runKey, Answer: raw, CreatedAt: d.v.Now}
	return nil
}
