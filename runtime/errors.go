package runtime

import (
	"errors"
	"fmt"
	"time"
)

// Kind says what sort of refusal an Error is; transports map it to a status.
type Kind uint8

// The kinds of refusal.
const (
	KindInvalid     Kind = iota // bad input, or a state that does not admit the request
	KindNotFound                // not there, or not the caller's
	KindForbidden               // the caller's, but not allowed
	KindConflict                // at odds with what is already there
	KindTooLarge                // more than a limit admits
	KindOverloaded              // a queue is full: try again after RetryAfter
	KindUnavailable             // stopping, or the database is away
)

// Error is a refusal a caller can act on. Every other error is the server's fault and shown to nobody.
type Error struct {
	Kind       Kind
	Code       string // snake_case
	Detail     string // a sentence
	RetryAfter time.Duration
}

// Error returns the sentence.
func (e *Error) Error() string { return e.Detail }

func refuse(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Refusals that need no detail of the request.
var (
	ErrRunNotFound     = refuse(KindNotFound, "not_found", "Agent run not found")
	ErrThreadNotFound  = refuse(KindNotFound, "not_found", "Thread not found")
	ErrProjectNotFound = refuse(KindNotFound, "not_found", "Project not found")
	ErrStopping        = refuse(KindUnavailable, "stopping", "The server is stopping; try again shortly")
	ErrThreadBusy      = refuse(KindConflict, "thread_busy", "The thread has a run that is queued or running")
	ErrThreadWaiting   = refuse(KindConflict, "thread_waiting", "The thread waits for an answer; answer it or use multitask interrupt")
	errQueueFull       = &Error{Kind: KindOverloaded, Code: "queue_full", Detail: "Too many runs are queued; try again later", RetryAfter: time.Second}
	ErrEmptyContent    = refuse(KindInvalid, "invalid_content", "Message content must not be empty")
)

// gone is what a caller is told of a run that was deleted after it was found.
func gone(err error) error {
	if errors.Is(err, ErrNotFound) {
		return ErrRunNotFound
	}
	return err
}

// unavailable turns what a Store returned into what a caller is shown.
func unavailable(err error) error {
	switch {
	case errors.Is(err, ErrFenced), errors.Is(err, ErrUnavailable):
		return &Error{Kind: KindUnavailable, Code: "unavailable", Detail: "The database is unavailable; try again shortly", RetryAfter: time.Second}
	case errors.Is(err, ErrDiskFull):
		return &Error{Kind: KindUnavailable, Code: "disk_full", Detail: "The database is out of space", RetryAfter: 5 * time.Second}
	case errors.Is(err, ErrNotFound): // deleted after it was found
		return refuse(KindNotFound, "not_found", "It is not there any more")
	}
	return err
}
