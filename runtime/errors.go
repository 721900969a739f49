package runtime

import (
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

func refuseAt(place, code, format string, args ...any) *Error {
	return data.RefuseAt(place, code, format, args...)
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

func unavailable(err error) error { return data.Unavailable(err) }
