package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/batonrun/baton/runtime/agui"
)

// Do calls fn once, however often the worker is called again: fn's work, and the value it leaves in
// *out, are recorded with the last event fn emitted. When there is a record, *out is filled from it and
// fn is not called. out is a pointer to something that survives JSON, or nil.
//
// The record is the n-th use of name in the step, so the worker must use one name in the same order each
// time and never twice at once. An error of fn is returned and not recorded. A message that fn opened
// is ended before the record is made and carries its own text as answer, even when it is the worker's last.
func (r *Run) Do(ctx context.Context, name string, out any, fn func(ctx context.Context) error) error {
	r.mu.Lock()
	err := r.alive()
	r.mu.Unlock()
	if err != nil {
		return err
	}
	called := false
	raw, err := r.host.Do(ctx, name, func(ctx context.Context) (json.RawMessage, error) {
		called = true
		return r.record(ctx, out, fn)
	})
	if err != nil || called {
		return r.noting(err)
	}
	return r.replay(name, raw, out)
}

// record is what Do keeps: fn's result, and what fn's text means to the rest of the step.
type record struct {
	Output    json.RawMessage `json:"output,omitempty"`
	MessageID string          `json:"messageId,omitempty"` // of the last assistant message begun by fn
	Text      string          `json:"text,omitempty"`
}

func (r *Run) record(ctx context.Context, out any, fn func(ctx context.Context) error) (json.RawMessage, error) {
	open, last, err := r.within(ctx, fn)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open != open {
		if err := r.end(nil); err != nil {
			return nil, err
		}
	}
	var rec record
	if r.last != last {
		rec.MessageID, rec.Text = r.last.id, r.last.text.String()
	}
	if out != nil {
		if rec.Output, err = json.Marshal(out); err != nil {
			return nil, fmt.Errorf("output: %w", err)
		}
	}
	return json.Marshal(rec)
}

// within calls fn one level deeper, and returns the open and the latest assistant message of before.
func (r *Run) within(ctx context.Context, fn func(ctx context.Context) error) (open, last *message, err error) {
	r.mu.Lock()
	open, last = r.open, r.last
	r.depth++
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.depth--
		r.mu.Unlock()
	}()
	return open, last, fn(ctx)
}

func (r *Run) replay(name string, raw json.RawMessage, out any) error {
	var rec record
	if err := json.Unmarshal(raw, &rec); err != nil {
		return fmt.Errorf("record of %q: %w", name, err)
	}
	if rec.MessageID != "" {
		m := &message{id: rec.MessageID, role: agui.RoleAssistant}
		m.text.WriteString(rec.Text)
		r.mu.Lock()
		r.last = m
		r.mu.Unlock()
	}
	if out == nil || rec.Output == nil {
		return nil
	}
	if err := json.Unmarshal(rec.Output, out); err != nil {
		return fmt.Errorf("record of %q: %w", name, err)
	}
	return nil
}

// CallTool calls a tool with the JSON of args, an object or nil for none, and waits for its result,
// which is recorded. A tool that fails is no error: the output's Status says so. CallTool returns
// ErrWaiting when a client or a person has to answer first.
func (r *Run) CallTool(ctx context.Context, name string, args any) (agui.ToolOutput, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return agui.ToolOutput{}, fmt.Errorf("arguments of %q: %w", name, err)
	}
	if string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	parent, err := r.before(r.ready)
	if err != nil {
		return agui.ToolOutput{}, err
	}
	out, err := r.host.CallTool(ctx, parent, name, raw)
	return out, r.noting(err)
}

// CallAgent runs another agent on query inside this step and waits for its output, which is recorded. It
// ends the open message first. The agent's events are attributed to it, it ends with this worker, and
// its error is returned.
func (r *Run) CallAgent(ctx context.Context, name, query string) (agui.WorkerOutput, error) {
	parent, err := r.before(r.close)
	if err != nil {
		return agui.WorkerOutput{}, err
	}
	out, err := r.host.CallAgent(ctx, parent, name, query)
	return out, r.noting(err)
}

// Ask returns a person's answer to q, which is given its ID, and a Reason when it has none: input_required
// with a ResponseSchema, else confirmation. While there is no answer it returns ErrWaiting, which the worker returns in turn; it is called again when the answer is there. Ask ends the
// open message first.
func (r *Run) Ask(ctx context.Context, q agui.Interrupt) (Answer, error) {
	if _, err := r.before(r.close); err != nil {
		return Answer{}, err
	}
	answer, err := r.host.Ask(ctx, q)
	return answer, r.noting(err)
}

// Next takes the messages appended to the run since its start or the last Next; none is nil. It does not
// wait for any, and ends the open message first.
func (r *Run) Next(ctx context.Context) ([]agui.Message, error) {
	if _, err := r.before(r.close); err != nil {
		return nil, err
	}
	messages, err := r.host.Next(ctx)
	if err != nil || len(messages) == 0 {
		return nil, err
	}
	return messages, nil
}

// before does what a call needs done first and returns the latest assistant message's id.
func (r *Run) before(prepare func() error) (parent string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := prepare(); err != nil {
		return "", err
	}
	if r.last != nil {
		parent = r.last.id
	}
	return parent, nil
}

func (r *Run) close() error { return r.end(nil) }

// noting returns err and remembers that the step waits if that is what it says.
func (r *Run) noting(err error) error {
	if errors.Is(err, ErrWaiting) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.waiting = true
	}
	return err
}
