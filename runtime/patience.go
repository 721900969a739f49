package runtime

import (
	"errors"
	"runtime/debug"
	"time"

	"github.com/batonrun/baton/plugins"
)

// errUnknownOutcome answers a request whose decision the database neither stores nor refuses. What was asked for happens if it
// does: it waits to be written.
var errUnknownOutcome = &Error{
	Kind: KindUnavailable, Code: "outcome_unknown", RetryAfter: 5 * time.Second,
	Detail: "The database does not answer, so whether this was done is not known; ask again with the same Idempotency-Key or runId, or look",
}

// patiently does what a request asks for, and answers for it once it is done. It does not have its client wait for a database that
// is stuck: what was begun goes on by itself then, and late, if there is one, is told what has come of it.
func patiently[T any](rt *Runtime, do func() (T, error), late func(T)) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	done, left := make(chan outcome), make(chan struct{})
	stuck := rt.commits.Stuck()
	go func() {
		var out outcome
		defer func() {
			if v := recover(); v != nil {
				out.err = &plugins.PanicError{Value: v, Stack: debug.Stack()}
			}
			select {
			case done <- out:
			case <-left:
				if out.err == nil && late != nil {
					late(out.v)
				}
				if _, refusal := errors.AsType[*Error](out.err); out.err != nil && !refusal {
					rt.log.Error("a request that nobody waits for has failed", "error", out.err)
				}
			}
		}()
		out.v, out.err = do()
	}()
	select {
	case out := <-done:
		return out.v, out.err
	case <-stuck:
		close(left)
		var none T
		return none, errUnknownOutcome
	}
}

// patientlyDone is patiently for what comes to nothing but an error.
func patientlyDone(rt *Runtime, do func() error) error {
	_, err := patiently(rt, func() (struct{}, error) { return struct{}{}, do() }, nil)
	return err
}
