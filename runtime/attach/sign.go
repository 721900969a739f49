package attach

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/model"
)

// RawPath is where Baton serves what lies where browsers do not reach it.
const RawPath = "/api/v1/attachments/raw"

// signer signs URLs with a secret of the database, so that they outlive the process.
type signer struct {
	mu     sync.Mutex // guards secret
	secret []byte     // nil until it is needed
}

// key returns the secret.
func (f *Files) key(ctx context.Context) ([]byte, error) {
	f.signer.mu.Lock()
	defer f.signer.mu.Unlock()
	if f.signer.secret != nil {
		return f.signer.secret, nil
	}
	const purpose = "attachments"
	text, err := f.cfg.Records.Secret(ctx, purpose)
	if errors.Is(err, model.ErrNotFound) {
		fresh := make([]byte, 32)
		_, _ = rand.Read(fresh) // which never fails
		if err = f.cfg.Records.PutSecret(ctx, purpose, hex.EncodeToString(fresh), false); err == nil {
			text, err = f.cfg.Records.Secret(ctx, purpose) // another may have been quicker
		}
	}
	if err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(text)
	if err != nil || len(secret) < 32 {
		return nil, errors.New("the secret of attachments is damaged")
	}
	f.signer.secret = secret
	return secret, nil
}

// sign is the signature of who may do what until when. No part can hold a line feed, so that none runs into the next.
func sign(secret []byte, method, project, path, expires string) string {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s\n%s\n%s\n%s", method, project, path, expires)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// signed is the path and query under which Baton serves an attachment until a time.
func signed(secret []byte, project, path string, until time.Time) string {
	expires := strconv.FormatInt(until.Unix(), 10)
	q := url.Values{"bucket": {project}, "path": {path}, "expires": {expires}}
	q.Set("signature", sign(secret, "GET", project, path, expires))
	return RawPath + "?" + q.Encode()
}

// valid reports whether a signature is right and has not expired.
func valid(secret []byte, method, project, path, expires, signature string, now time.Time) bool {
	want := sign(secret, method, project, path, expires)
	until, err := strconv.ParseInt(expires, 10, 64)
	return hmac.Equal([]byte(want), []byte(signature)) && err == nil && now.Unix() < until
}
