package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/batonrun/baton/runtime/agui"
)

// Run is a worker's handle on its run. Its methods are safe for concurrent use and block while the log's queue is full.
// After the worker has returned they have no effect, and those that return an error return ErrEnded.
type Run struct {
	Input Input

	host     Host
	root     *scope
	external bool // Info.External of the worker
	guards   Guards
	name     string // of the agent

	rewrote   []string      // the ids of new messages that guards have rewritten
	rewritten *agui.Message // which replaces them, or nil

	mu      sync.Mutex   // guards the fields below and the order of emitted events
	idle    *sync.Cond   // signals that working is 0
	working int          // goroutines started by Go that have not returned
	failed  error        // the first error of these goroutines
	waiting bool         // a call returned ErrWaiting
	dos     []*doing     // Dos with running functions
	open    *message     // the message that has started and not ended
	last    *message     // the latest assistant message, ended or not
	models  []*modelCall // open model calls

	reserved map[*scope]func(*agui.TokenUsage) // settle the reservations of model calls; nil once the worker has returned

	ended bool // Execute has returned
	holds bool // guards of the output have not allowed the answer
}

// Execute runs a on a host and settles the rest of the step. It returns after the worker and the goroutines of Run.Go have
// returned; their context is done then. A panic becomes a *PanicError. The ctx of a sub-agent must be derived from that of
// its host's CallAgent, which determines its places.
//
// If the worker succeeds, the last assistant message ends with the returned output; an empty Answer becomes the message's
// text. If that message has already ended or does not exist, an Answer with other content becomes a message of its own. If
// the worker waits, an open message ends too; if it fails, the host ends it.
func Execute(ctx context.Context, a Agent, host Host, in Input) (agui.WorkerOutput, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(ErrEnded)
	info := a.Info()
	if r, ok := a.(interface{ Reads(in Input) Input }); ok {
		in = r.Reads(in)
	}
	run := &Run{Input: in, host: host, external: info.External, name: info.Name, guards: info.Guards, holds: len(info.Guards.Output) > 0, reserved: make(map[*scope]func(*agui.TokenUsage))}
	defer run.settleCalls()
	run.idle = sync.NewCond(&run.mu)
	run.root = newScope(run, "")
	if s, ok := ctx.Value(scopeKey{}).(*scope); ok {
		run.root.path = s.path
	}
	ctx = run.root.in(ctx)
	var out agui.WorkerOutput
	guards := checker{run: run}
	err := protect(func() (err error) {
		if err := guards.input(ctx); err != nil {
			return err
		}
		if err = protect(func() (err error) {
			if out, err = a.Run(ctx, run); err == nil {
				err = failureOf(&out)
			}
			return err
		}); err != nil {
			return run.conceal(ctx, err)
		}
		return guards.output(ctx, &out)
	})
	return run.settle(out, err)
}

// Go calls fn in a goroutine that the step waits for. Its error or panic fails the step unless the worker itself
// returns an error. After the worker has returned Go does nothing.
func (r *Run) Go(fn func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.working++
	go func() { // ends when fn returns; settle waits
		var err error
		defer func() { r.done(err) }()
		err = protect(fn)
	}()
}

func (r *Run) done(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.working--
	r.idle.Broadcast()
	switch {
	case errors.Is(err, ErrWaiting):
		r.waiting = true
	case r.failed == nil:
		r.failed = r.conceal(context.Background(), err)
	}
}

// Silent reports whether no word of a model of the worker may be seen outside of it, in the log of the server either: guards of its output have
// not allowed its answer, or it is a guard itself.
func (r *Run) Silent() bool {
	_, guard := r.host.(quiet)
	return guard || len(r.guards.Output) > 0
}

// conceal returns an error of the worker, without its text if guards decide about the worker's output.
func (r *Run) conceal(ctx context.Context, err error) error {
	if len(r.guards.Output) == 0 {
		return err
	}
	return concealed(ctx, err, r.external)
}

// concealed returns an error without its text, which can have words of a model. The code of a worker in this program is a constant,
// but an external one's can be any text.
func concealed(ctx context.Context, err error, external bool) error {
	const why = "The agent failed, and its error is not shown because guards judge what it says"
	switch {
	case err == nil || errors.Is(err, ErrWaiting):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	if p, ok := errors.AsType[*Interrupted](err); ok {
		return &Interrupted{Reason: why, Counts: p.Counts}
	}
	if p, ok := errors.AsType[*PanicError](err); ok {
		return &PanicError{Value: why, Stack: p.Stack}
	}
	shown, ok := errors.AsType[*Error](err)
	if !ok {
		return errors.New(why) //nolint:staticcheck // a sentence for people
	}
	hidden := &Error{Message: why, Retryable: shown.Retryable}
	if !external && isCode(shown.Code) {
		hidden.Code = shown.Code
	}
	return hidden
}

// isCode reports whether a text has the form of an error's code.
func isCode(s string) bool {
	return len(s) <= 64 && !strings.ContainsFunc(s, func(c rune) bool { return c != '_' && (c < 'a' || c > 'z') })
}

// State merges patch into the thread's state. The JSON of patch is an RFC 7396 merge patch. It does nothing in an agent with guards of
// its output.
func (r *Run) State(patch any) error {
	raw, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("state patch: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.ready(); err != nil || r.holds {
		return err
	}
	return r.host.PatchState(raw)
}

// Progress reports the node's progress from 0 to 1 with a description.
func (r *Run) Progress(fraction float64, message string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.emit(agui.Progress(r.Input.Node, fraction, message))
}

// Compacted reports how the prompt of a model call was shortened. The context is that of BeginModelCall or SendPrompt.
func (r *Run) Compacted(ctx context.Context, c agui.Compaction) error {
	c.CallID, _ = ctx.Value(modelCallKey{}).(string)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.emit(c.Event())
}

// Emit writes any other event; most workers need only the other methods. Its text messages count like those of Text: a
// TEXT_MESSAGE_START ends the open message, and a TEXT_MESSAGE_END without Output gets one when it is written. The role
// of a text is stored as assistant, except for a system notice of a worker that is not External: viewers see it, and
// prompts omit it.
//
// Emit fails with an *Error of the code illegal_event for an event out of AG-UI's order, an event that continues a
// message, call or activity of another run, and Baton's own CUSTOM events, for which Run has methods.
func (r *Run) Emit(ev agui.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ev, err := r.admit(ev)
	if err != nil {
		return err
	}
	switch ev := ev.(type) {
	case agui.TextMessageStart:
		return r.start(&message{id: ev.MessageID, role: ev.Role, depth: len(r.dos), nested: ev.SubagentRunID != ""}, ev)
	case agui.TextMessageContent:
		return r.write(ev)
	case agui.TextMessageEnd:
		if r.open == nil || r.open.id != ev.MessageID {
			break
		}
		r.open.base = ev.Base
		if ev.Output == nil {
			r.open.complete = true
			return r.alive()
		}
		return r.end(ev.Output)
	}
	return r.emit(ev)
}

// settle waits for the goroutines of Go and ends the step.
func (r *Run) settle(out agui.WorkerOutput, err error) (agui.WorkerOutput, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.ended = true }()
	for r.working > 0 {
		r.idle.Wait()
	}
	r.endModelCalls()

	if r.failed != nil && (err == nil || errors.Is(err, ErrWaiting)) {
		err = r.failed
	}
	if err == nil && r.waiting {
		err = ErrWaiting // a worker that ignored it cannot have succeeded
	}
	switch {
	case err == nil:
		err = r.conclude(&out)
	case errors.Is(err, ErrWaiting):
		if endErr := r.end(nil); endErr != nil {
			err = endErr
		}
	default:
		_ = r.ready() // the worker's error is more specific
	}
	return out, err
}

// failureOf returns the error of an output that says it has failed, or whose status does not exist. It sets a missing status.
func failureOf(out *agui.WorkerOutput) error {
	switch out.Status {
	case "":
		out.Status = agui.StatusSuccess
		return nil
	case agui.StatusSuccess, agui.StatusPartialSuccess:
		return nil
	case agui.StatusFailed, agui.StatusFailure:
		if e := out.Error; e != nil {
			return &Error{Code: e.Code, Message: e.Message, Retryable: e.Retryable}
		}
		return &Error{Code: "agent_failed", Message: "The agent has failed, and gave no reason"}
	}
	return &Error{Code: "bad_output", Message: fmt.Sprintf("The agent returned the unknown status %.100q", out.Status)}
}

// conclude completes the output of a successful worker and ends its last message with it.
func (r *Run) conclude(out *agui.WorkerOutput) error {
	if r.last == nil && hasContent(out) || r.last != nil && r.last != r.open && r.last.differsFrom(out.Answer) {
		if err := r.say(out.Answer); err != nil {
			return err
		}
	}
	if out.Answer == "" && r.last != nil {
		out.Answer = r.last.text.String()
	}
	if r.open != nil && r.open == r.last {
		return r.end(out)
	}
	return r.end(nil)
}

// differsFrom reports whether answer differs from m's text.
func (m *message) differsFrom(answer string) bool {
	answer = strings.TrimSpace(answer)
	return answer != "" && answer != strings.TrimSpace(m.text.String())
}

// hasContent reports whether out has content for the user.
func hasContent(out *agui.WorkerOutput) bool {
	return out.Answer != "" || len(out.KeyPoints) > 0 || len(out.SuggestedActions) > 0 || out.UIHints != nil || out.Result != nil
}

// protect calls fn and turns a panic into a *PanicError.
func protect(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return fn()
}
