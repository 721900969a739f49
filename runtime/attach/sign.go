package attach

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// RawPath is the path of attachments that Baton serves itself.
const RawPath = "/api/v1/attachments/raw"

// skew is the tolerated clock difference between the server that signs a URL and the one that opens it.
const skew = time.Minute

// sign signs a URL's method, path and expiry. The parts cannot contain the line feed that separates them.
func sign(secret []byte, method, project, path, expires string) string {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s\n%s\n%s\n%s", method, project, path, expires)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// signed returns the path and query of an attachment that Baton serves until a time.
func signed(secret []byte, project, path string, until time.Time) string {
	expires := strconv.FormatInt(until.Unix(), 10)
	q := url.Values{"bucket": {project}, "path": {path}, "expires": {expires}}
	q.Set("signature", sign(secret, "GET", project, path, expires))
	return RawPath + "?" + q.Encode()
}

// valid reports whether a signature matches, has not expired, and expires no later than a URL signed now would.
func valid(secret []byte, s *Signed, now time.Time, lasts time.Duration) bool {
	want := sign(secret, s.Method, s.Bucket, s.Path, s.Expires)
	until, err := strconv.ParseInt(s.Expires, 10, 64)
	return hmac.Equal([]byte(want), []byte(s.Signature)) && err == nil && now.Unix() < until && until <= now.Add(lasts+skew).Unix()
}
