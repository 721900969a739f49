package runtime

import (
	"errors"
	"time"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/log"
	"github.com/batonrun/baton/runtime/model"
)

// Errors that a Store returns: see package model.
var (
	ErrNotFound    = model.ErrNotFound
	ErrFenced      = model.ErrFenced
	ErrUnavailable = model.ErrUnavailable
	ErrDiskFull    = model.ErrDiskFull
	ErrRevoked     = model.ErrRevoked
)

// ErrRemoved means that events were removed before the reader received them.
var ErrRemoved = log.ErrRemoved

// Error is a refusal that a caller can act on. Every other error is an internal error, and its text is never shown to
// clients.
type Error = model.Error

// Kind classifies an Error.
type Kind = model.Kind

// The kinds of refusal: see [model.Kind].
const (
	KindInvalid      = model.KindInvalid
	KindUnauthorized = model.KindUnauthorized
	KindNotFound     = model.KindNotFound
	KindForbidden    = model.KindForbidden
	KindConflict     = model.KindConflict
	KindTooLarge     = model.KindTooLarge
	KindOverloaded   = model.KindOverloaded
	KindUnavailable  = model.KindUnavailable
	KindUnsupported  = model.KindUnsupported
)

func refuse(kind Kind, code, format string, args ...any) *Error {
	return model.Refuse(kind, code, format, args...)
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
	ErrEmptyContent    = refuse(KindInvalid, "invalid_content", "Message content must not be empty")
)

// unavailable turns an error of a Store into the error for the caller.
func unavailable(err error) error {
	switch {
	case errors.Is(err, ErrFenced), errors.Is(err, ErrUnavailable), errors.Is(err, model.ErrConflict):
		return &Error{Kind: KindUnavailable, Code: "unavailable", Detail: "The database is unavailable; try again shortly", RetryAfter: time.Second}
	case errors.Is(err, model.ErrTooSlow):
		return &Error{Kind: KindUnavailable, Code: "too_slow", Detail: "The database took too long; try again shortly", RetryAfter: time.Second}
	case errors.Is(err, ErrDiskFull):
		return &Error{Kind: KindUnavailable, Code: "disk_full", Detail: "The database is out of space", RetryAfter: 5 * time.Second}
	case errors.Is(err, model.ErrText):
		return refuse(KindInvalid, "invalid_text", "A text may not hold NUL, and must be UTF-8")
	case errors.Is(err, ErrNotFound): // deleted after it was found
		return refuse(KindNotFound, "not_found", "It is not there any more")
	}
	return err
}
