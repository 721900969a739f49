package data

import (
	"errors"
	"fmt"
	"time"
)

// Errors a Store returns, wrapped or bare.
var (
	// ErrNotFound means that no such row exists.
	ErrNotFound = errors.New("not found")
	// ErrFenced means that another instance has taken over, or that this is not the database to which the instance
	// wrote. Nothing was written, and no later write will succeed.
	ErrFenced = errors.New("this instance has been fenced")
	// ErrUnavailable means that the database is unreachable, or that the connection broke and the result of the
	// transaction is unknown. The call can be repeated.
	ErrUnavailable = errors.New("database unavailable")
	// ErrDamaged is an ErrUnavailable that does not pass: the database's file is damaged.
	ErrDamaged = fmt.Errorf("%w: its file is damaged", ErrUnavailable)
	// ErrDenied is an ErrUnavailable that only an operator ends: the database is read-only, or its user lacks a right. A server that runs
	// waits for that, as for the end of a failover; a server that starts does not.
	ErrDenied = fmt.Errorf("%w: access is denied", ErrUnavailable)
	// ErrMissing is an ErrUnavailable: the database's file is not at its place any more. It passes when the file is put back.
	ErrMissing = fmt.Errorf("%w: its file is missing", ErrUnavailable)
	// ErrTooSlow means that a statement timed out; nothing was written.
	ErrTooSlow = errors.New("statement timed out")
	// ErrConflict means that another instance changed the data of a decision; nothing was written. Repeating the call
	// decides again.
	ErrConflict = errors.New("concurrent change")
	// ErrText means that a text has NUL or is not UTF-8, which not every database can store; nothing was written.
	ErrText = errors.New("text has NUL or is not UTF-8")
	// ErrDiskFull means that the database has no space; nothing was written.
	ErrDiskFull = errors.New("database is out of space")
	// ErrQuota means that the user's quota of attachments is full.
	ErrQuota = errors.New("the user's quota is full")
	// ErrRevoked means that the requester's key was revoked; nothing was written.
	ErrRevoked = errors.New("the key was revoked")
	// ErrSchema means that the database does not have this program's schema.
	ErrSchema = errors.New("the database does not have this program's schema")
)

// Passes reports whether a start that has failed with err may succeed later although nobody changes the database: it is away, slow or full.
func Passes(err error) bool {
	for _, lasting := range []error{ErrDamaged, ErrDenied, ErrSchema} {
		if errors.Is(err, lasting) {
			return false
		}
	}
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrTooSlow) || errors.Is(err, ErrDiskFull)
}

// HeldError means that an instance may write the database, which the caller's work does not allow.
type HeldError struct {
	Instance string
	Addr     string // where clients reach it; may be empty
	Silent   bool   // its lease has run out: either it renews the lease soon, or it has died
}

func (e *HeldError) Error() string {
	text := "a server uses the database"
	if e.Silent {
		text += ", but has been silent"
	}
	if e.Addr == "" {
		return text
	}
	return text + ": it listens on " + e.Addr
}

// Kind classifies refusals; transports map it to a status.
type Kind uint8

// The kinds of refusals.
const (
	KindInvalid      Kind = iota // bad input, or a state that does not admit the request
	KindUnauthorized             // unknown caller
	KindNotFound                 // missing, or another caller's
	KindForbidden                // visible to the caller, but not allowed
	KindConflict                 // conflicts with existing data
	KindTooLarge                 // exceeds a limit
	KindOverloaded               // a queue is full: try again after RetryAfter
	KindUnavailable              // stopping, or the database is unavailable
	KindUnsupported              // unsupported type
)

// Error is a refusal on which a caller can act. All other errors are internal and not shown to clients.
type Error struct {
	Kind       Kind
	Code       string // snake_case
	Detail     string // a sentence
	Place      string // JSON pointer to the error in the request's body; empty if there is no single place
	RetryAfter time.Duration
}

// Error returns the sentence.
func (e *Error) Error() string { return e.Detail }

// Refuse makes a refusal.
func Refuse(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// RefuseAt refuses a request because of one place in its body, given as a JSON pointer.
func RefuseAt(place, code, format string, args ...any) *Error {
	err := Refuse(KindInvalid, code, format, args...)
	err.Place = place
	return err
}

// Gone replaces an error that wraps ErrNotFound by refusal, and returns others unchanged.
func Gone(err error, refusal *Error) error {
	if errors.Is(err, ErrNotFound) {
		return refusal
	}
	return err
}

// Unavailable turns an error of a Store into the error for the caller.
func Unavailable(err error) error {
	switch {
	case errors.Is(err, ErrDamaged):
		return &Error{Kind: KindUnavailable, Code: "database_damaged", Detail: "The database is damaged; its operator must restore a backup", RetryAfter: time.Minute}
	case errors.Is(err, ErrMissing):
		return &Error{Kind: KindUnavailable, Code: "database_missing", Detail: "The database's file is missing; its operator must put it back, or restore a backup", RetryAfter: time.Minute}
	case errors.Is(err, ErrDenied):
		return &Error{Kind: KindUnavailable, Code: "database_denied", Detail: "The database is read-only, or denies its user access; its operator must change that", RetryAfter: 5 * time.Second}
	case errors.Is(err, ErrFenced), errors.Is(err, ErrUnavailable), errors.Is(err, ErrConflict):
		return &Error{Kind: KindUnavailable, Code: "unavailable", Detail: "The database is unavailable; try again shortly", RetryAfter: time.Second}
	case errors.Is(err, ErrTooSlow):
		return &Error{Kind: KindUnavailable, Code: "too_slow", Detail: "The database took too long; try again shortly", RetryAfter: time.Second}
	case errors.Is(err, ErrDiskFull):
		return &Error{Kind: KindUnavailable, Code: "disk_full", Detail: "The database is out of space", RetryAfter: 5 * time.Second}
	case errors.Is(err, ErrText):
		return Refuse(KindInvalid, "invalid_text", "A text may not hold NUL, and must be UTF-8")
	case errors.Is(err, ErrNotFound): // deleted after it was found
		return Refuse(KindNotFound, "not_found", "It is not there any more")
	}
	return err
}
