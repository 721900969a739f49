package model

import (
	"errors"
	"fmt"
	"time"
)

// Errors a Store returns, wrapped or bare.
var (
	// ErrNotFound means that no such row exists.
	ErrNotFound = errors.New("not found")
	// ErrFenced means that another instance has taken over, or that the database is not the one this instance
	// has written to: nothing was written and nothing will be.
	ErrFenced = errors.New("this instance has been fenced")
	// ErrUnavailable means that the database could not be reached, or the connection broke and the fate
	// of the transaction is unknown. The same call may be made again.
	ErrUnavailable = errors.New("database unavailable")
	// ErrTooSlow means that a statement took longer than the database lets it; nothing was written.
	ErrTooSlow = errors.New("the database gave a statement up")
	// ErrConflict means that another instance wrote what a decision was based on; nothing was written. The
	// same call decides again.
	ErrConflict = errors.New("decided on what has changed meanwhile")
	// ErrText means that a text holds what not every database can keep, NUL or what is not UTF-8; nothing was written.
	ErrText = errors.New("text that cannot be kept")
	// ErrDiskFull means that the database has no room; nothing was written.
	ErrDiskFull = errors.New("database is out of space")
	// ErrQuota means that a user has as many attachments as there may be.
	ErrQuota = errors.New("the user's quota is full")
	// ErrRevoked means that the key of who asks for a change of keys was revoked; nothing was written.
	ErrRevoked = errors.New("the key was revoked")
	// ErrSchema means that the database has no schema, or not the one this program needs.
	ErrSchema = errors.New("the database does not have this program's schema")
)

// HeldError means that another instance may write the database, and this one may not.
type HeldError struct {
	Instance string
	Addr     string // where clients reach it; may be empty
}

func (e *HeldError) Error() string {
	if e.Addr == "" {
		return "another server has the database"
	}
	return "another server has the database: it listens on " + e.Addr
}

// Kind says what sort of refusal an Error is; transports map it to a status.
type Kind uint8

// The kinds of refusal.
const (
	KindInvalid      Kind = iota // bad input, or a state that does not admit the request
	KindUnauthorized             // nobody knows who asks
	KindNotFound                 // not there, or not the caller's
	KindForbidden                // the caller's, but not allowed
	KindConflict                 // at odds with what is already there
	KindTooLarge                 // more than a limit admits
	KindOverloaded               // a queue is full: try again after RetryAfter
	KindUnavailable              // stopping, or the database is away
	KindUnsupported              // of a type that is not taken
)

// Error is a refusal a caller can act on. Every other error is the server's fault and shown to nobody.
type Error struct {
	Kind       Kind
	Code       string // snake_case
	Detail     string // a sentence
	Place      string // of what is wrong in the request's body, a JSON pointer; empty when it is no one place
	RetryAfter time.Duration
}

// Error returns the sentence.
func (e *Error) Error() string { return e.Detail }

// Refuse makes a refusal.
func Refuse(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Gone returns refusal, which says what is not there any more, for an error that wraps ErrNotFound, and any other as it is.
func Gone(err error, refusal *Error) error {
	if errors.Is(err, ErrNotFound) {
		return refusal
	}
	return err
}
