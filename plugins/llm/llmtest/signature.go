package llmtest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
)

// signature returns a model's signature of parts of an answer. The rules of the providers that sign refuse it with other parts, in
// another place or for another model.
func signature(model string, parts ...string) string {
	h := hmac.New(sha256.New, []byte(model))
	text, _ := json.Marshal(parts) // strings always marshal
	h.Write(text)
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// compact returns JSON without blanks.
func compact(raw []byte) string {
	var buf bytes.Buffer
	if json.Compact(&buf, raw) != nil {
		return string(raw)
	}
	return buf.String()
}
