package auth

import (
	"net/http"
	"strings"

	"github.com/batonrun/baton/runtime"
)

// Bearer returns the credential of a request with "Authorization: Bearer …". Its length is limited by the server's for all headers. It fails, with a sentence for the client's author,
// if there is none, more than one, or one in another place.
func Bearer(r *http.Request) (string, error) {
	for name := range r.URL.Query() {
		switch strings.ToLower(name) {
		case "access_token", "token", "api_key", "apikey", "authorization": // logs, histories and a Referer would reveal it
			return "", errQueried
		}
	}
	values := r.Header.Values("Authorization")
	switch len(values) {
	case 0:
		return "", errNone
	case 1:
	default:
		return "", errSeveral
	}
	scheme, credential, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", errScheme
	}
	credential = strings.TrimLeft(credential, " ")
	if credential == "" || strings.ContainsFunc(credential, notOfToken) {
		return "", errScheme
	}
	return credential, nil
}

// notOfToken reports whether a rune cannot be part of a token68 (RFC 9110, 11.2).
func notOfToken(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~+/=", r)
}

// The refusals of Bearer.
var (
	errNone    = unauthorized("unauthorized", "A credential is needed: send it as Authorization: Bearer …")
	errSeveral = unauthorized("unauthorized", "Send one header Authorization, not several")
	errScheme  = unauthorized("unauthorized", "The header Authorization must be the word Bearer, a space and one credential")
	errQueried = unauthorized("unauthorized", "A credential does not belong in a URL: send it as Authorization: Bearer …, and open streams with a ticket")
)

// ErrUnknown refuses a credential without the reason.
var ErrUnknown = unauthorized("unauthorized", "This server does not know who you are; send a credential that it takes")

func unauthorized(code, detail string) *runtime.Error {
	return &runtime.Error{Kind: runtime.KindUnauthorized, Code: code, Detail: detail}
}
