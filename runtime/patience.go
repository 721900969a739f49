package runtime

import (
	"errors"
	"runtime/debug"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/data"
)

// errUnknownOutcome answers a request whose decision the database neither stores nor refuses. The decision still
// waits to be written, and takes effect if it is.
var errUnknownOutcome = &Error{
	Kind: KindUnavailable, Code: "outcome_unknown", RetryAfter: 5 * time.Second,
	Detail: "The database does not answer, so whether this was done is not known; ask again with the same Idempotency-Key or runId, or look",
}

// withTimeout runs do and returns its result. If the database is stuck it returns errUnknownOutcome instead of waiting;
// do then continues alone, and late, if not nil, receives its result on success.
func withTimeout[T any](rt *Runtime, do func() (T, error), late func(T)) (T, error) {
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
		if trouble := rt.commits.Trouble(); errors.Is(trouble, data.ErrDamaged) {
			return none, unavailable(trouble)
		}
		return none, errUnknownOutcome
	}
}

// doWithTimeout is withTimeout for functions that return only an error.
func doWithTimeout(rt *Runtime, do func() error) error {
	_, err := withTimeout(rt, func() (struct{}, error) { return struct{}{}, do() }, nil)
	return err
}
