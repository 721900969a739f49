package plugins

import (
	"context"
	"errors"

	"github.com/batonrun/baton/runtime/agui"
)

// doing is a Do with a running function.
type doing struct {
	outer  *doing       // the enclosing Do, nil outside of any
	open   *message     // the open message when it began
	before *message     // the latest assistant message when it began
	calls  []*Announced // announced by it and not withdrawn
	shown  []*message   // messages that it has started and not retracted
}

// Retract withdraws the output of the running Do, for instance before a retry: it ends the open message as interrupted,
// and announced calls get the result interrupted. The messages stay in the log, and prompts and the history omit them,
// except a message that a call of CallTools or CallAgent belongs to. ctx is the context of the Do's function. Messages
// started while another Do was running concurrently cannot be attributed, and stay once they have ended.
func (r *Run) Retract(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.scopeOf(ctx).do
	if d == nil {
		return errOutside
	}
	var err error
	if m := r.open; m != nil && m != d.open {
		err = r.end(interrupted(m))
	}
	r.last = d.before
	results, callErr := r.withdraw(d)
	if err := errors.Join(err, callErr); err != nil {
		return err
	}
	var ids []string
	for _, m := range d.shown {
		if !m.called {
			ids = append(ids, m.id)
		}
	}
	d.shown = nil
	if ids = append(ids, results...); len(ids) == 0 {
		return nil
	}
	return r.show(agui.Retracted(ids))
}

// interrupted is the output of a message that is retracted.
func interrupted(m *message) *agui.WorkerOutput {
	return &agui.WorkerOutput{
		Status: agui.StatusFailed, Answer: m.text.String(),
		Error: &agui.OutputError{Code: "interrupted", Message: "The message was interrupted", Retryable: true},
	}
}

// withdraw gives d's announced calls their results, and returns the ids of results that are retracted with their messages.
func (r *Run) withdraw(d *doing) (results []string, err error) {
	var errs []error
	shown := make(map[*message]bool, len(d.shown))
	for _, m := range d.shown {
		shown[m] = true
	}
	for _, a := range d.calls {
		id, err := a.withdraw()
		if err == nil && id != "" && !a.parent.called && shown[a.parent] {
			results = append(results, id)
		}
		errs = append(errs, err)
	}
	d.calls = nil
	return results, errors.Join(errs...)
}
