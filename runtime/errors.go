package runtime

import (
	"errors"
	"time"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/tail"
)

// Errors that a Store returns: see package data.
var (
	ErrNotFound    = data.ErrNotFound
	ErrFenced      = data.ErrFenced
	ErrUnavailable = data.ErrUnavailable
	ErrDiskFull    = data.ErrDiskFull
	ErrRevoked     = data.ErrRevoked
)

// ErrRemoved means that events were removed before the reader received them.
var ErrRemoved = tail.ErrRemoved

// Error is a refusal that a caller can act on. Every other error is an internal error, and its text is never shown to
// clients.
type Error = data.Error

// Kind classifies an Error.
type Kind = data.Kind

// The kinds of refusal: see [data.Kind].
const (
	KindInvalid      = data.KindInvalid
	KindUnauthorized = data.KindUnauthorized
	KindNotFound     = data.KindNotFound
	KindForbidden    = data.KindForbidden
	KindConflict     = data.KindConflict
	KindTooLarge     = data.KindTooLarge
	KindOverloaded   = data.KindOverloaded
	KindUnavailable  = data.KindUnavailable
	KindUnsupported  = data.KindUnsupported
)

func refuse(kind Kind, code, format string, args ...any) *Error {
	return data.Refuse(kind, code, format, args...)
}

// refuseAt refuses a request because of one place in its body, given as a JSON pointer.
func refuseAt(place, code, format string, args ...any) *Error {
	err := refuse(KindInvalid, code, format, args...)
	err.Place = place
	return err
}

// Refusals that need no detail of the request.
var (
	ErrRunNotFound     = decide.ErrRunNotFound
	ErrThreadNotFound  = decide.ErrThreadNotFound
	ErrThreadBusy      = decide.ErrThreadBusy
	ErrThreadWaiting   = decide.ErrThreadWaiting
	ErrProjectNotFound = refuse(KindNotFound, "not_found", "Project not found")
	ErrStopping        = commit.ErrStopping
	ErrUnstarted       = refuse(KindUnavailable, "unavailable", "The server is starting")
	ErrEmptyContent    = refuse(KindInvalid, "invalid_content", "Message content must not be empty")
)

// unavailable turns an error of a Store into the error for the caller.
func unavailable(err error) error {
	switch {
	case errors.Is(err, data.ErrDamaged):
		return &Error{Kind: KindUnavailable, Code: "database_damaged", Detail: "The database is damaged; its operator must restore a backup", RetryAfter: time.Minute}
	case errors.Is(err, data.ErrMissing):
		return &Error{Kind: KindUnavailable, Code: "database_missing", Detail: "The database's file is missing; its operator must put it back, or restore a backup", RetryAfter: time.Minute}
	case errors.Is(err, data.ErrDenied):
		return &Error{Kind: KindUnavailable, Code: "database_denied", Detail: "The database is read-only, or denies its user access; its operator must change that", RetryAfter: 5 * time.Second}
	case errors.Is(err, ErrFenced), errors.Is(err, ErrUnavailable), errors.Is(err, data.ErrConflict):
		return &Error{Kind: KindUnavailable, Code: "unavailable", Detail: "The database is unavailable; try again shortly", RetryAfter: time.Second}
	case errors.Is(err, data.ErrTooSlow):
		return &Error{Kind: KindUnavailable, Code: "too_slow", Detail: "The database took too long; try again shortly", RetryAfter: time.Second}
	case errors.Is(err, ErrDiskFull):
		return &Error{Kind: KindUnavailable, Code: "disk_full", Detail: "The database is out of space", RetryAfter: 5 * time.Second}
	case errors.Is(err, data.ErrText):
		return refuse(KindInvalid, "invalid_text", "A text may not hold NUL, and must be UTF-8")
	case errors.Is(err, ErrNotFound): // deleted after it was found
		return refuse(KindNotFound, "not_found", "It is not there any more")
	}
	return err
}
