package plugins

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/batonrun/baton/runtime/agui"
)

// Do calls fn unless there is a record of it: fn's work, and the value it leaves in *out, are recorded
// with the last event fn emitted, and from then on *out is filled from the record however often the worker
// is called again. out is a pointer to something that survives JSON, or nil. When the process dies before
// the record is stored, fn is called again: what must never run twice is a Tool that is not Idempotent.
//
// An error of fn is returned and not recorded. A message that fn opened is ended before the record is made
// and carries its own text as answer, even when it is the worker's last. What fn itself uses, another Do or
// a tool, is given the context that fn is given: it stands inside of this Do then, and is not met again once
// the Do is recorded.
func (r *Run) Do(ctx context.Context, name string, out any, fn func(ctx context.Context) error) error {
	s := r.scopeOf(ctx)
	what := fmt.Sprintf("A Do named %q", name)
	u, _, err := r.use(ctx, func() error { return s.begin(what) }, "do", name, nil)
	if err != nil {
		return err
	}
	defer s.end(what)
	called := false
	raw, err := r.host.Do(ctx, u, func(ctx context.Context) (Record, error) {
		called = true
		inner := newScope(r, u.path())
		inner.do = &doing{outer: s.do}
		return r.record(ctx, inner, out, fn)
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

func (r *Run) record(ctx context.Context, s *scope, out any, fn func(ctx context.Context) error) (rec Record, err error) {
	open, last, err := r.within(s.in(ctx), s.do, fn)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if !errors.Is(err, ErrWaiting) {
			_, _ = r.withdraw(s.do) // fn's error says more than this one
		}
		return rec, err
	}
	if r.open != open {
		if err := r.end(nil); err != nil {
			return rec, err
		}
	}
	if rec.Calls, err = r.announced(s.do); err != nil {
		return rec, err
	}
	var kept record
	if r.last != last {
		kept.MessageID, kept.Text = r.last.id, r.last.text.String()
	}
	if out != nil {
		if kept.Output, err = encode(out); err != nil {
			return rec, fmt.Errorf("output: %w", err)
		}
	}
	rec.Output, err = encode(kept)
	return rec, err
}

// encode is v as JSON in which <, > and & take one byte, and not six.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// within calls fn one level deeper, and returns the open and the latest assistant message of before.
func (r *Run) within(ctx context.Context, d *doing, fn func(ctx context.Context) error) (open, last *message, err error) {
	r.mu.Lock()
	open, last = r.open, r.last
	d.open, d.before = open, last
	r.dos = append(r.dos, d)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.dos = slices.DeleteFunc(r.dos, func(other *doing) bool { return other == d })
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
// which is recorded. A tool that fails is no error: the output's Status says so; neither is one that does not exist or
// does not take the arguments. CallTool returns ErrWaiting when a client or a person has to answer first.
//
// A name that is no tool's but an agent's runs that agent inside this step, as CallAgent does, on the string query of
// its arguments.
//
// A tool that is not Idempotent is called at most once, whatever happens: that its call begins is recorded
// before, and when the process dies in it, its result is a failure with the code interrupted.
func (r *Run) CallTool(ctx context.Context, name string, args any) (agui.ToolOutput, error) {
	outs, err := r.CallTools(ctx, ToolCall{Name: name, Args: args})
	if outs == nil {
		return agui.ToolOutput{}, err
	}
	return outs[0], err
}

// ToolCall is one call of CallTools.
type ToolCall struct {
	Name string
	Args any    // an object, or nil for none
	ID   string // of a call that was announced, whose arguments these are; else empty
}

// CallTools makes several calls at once, of one tool or of many, and returns their outputs in the order of the
// calls. When some of them wait for an answer it returns ErrWaiting, once the others have their results.
func (r *Run) CallTools(ctx context.Context, calls ...ToolCall) ([]agui.ToolOutput, error) {
	uses := make([]Use, len(calls))
	for i, c := range calls {
		raw, err := json.Marshal(c.Args)
		if err != nil {
			return nil, fmt.Errorf("arguments of %q: %w", c.Name, err)
		}
		if string(raw) == "null" {
			raw = json.RawMessage("{}")
		}
		if uses[i] = (Use{Name: c.Name}); c.ID != "" {
			uses[i] = r.announcedUse(c.ID, c.Name)
		}
		uses[i].Request = raw
	}
	parent, err := r.place(ctx, r.ready, "tool", uses)
	if err != nil {
		return nil, err
	}
	if err := r.host.OpenCalls(ctx, parent, uses); err != nil {
		return nil, r.noting(err)
	}
	outs, errs := make([]agui.ToolOutput, len(uses)), make([]error, len(uses))
	var made sync.WaitGroup
	for i, u := range uses {
		ctx := (&scope{path: u.path()}).in(ctx) // an agent that is called stands in it
		made.Go(func() {
			errs[i] = protect(func() (err error) {
				outs[i], err = r.host.CallTool(ctx, u)
				return err
			})
		})
	}
	made.Wait()
	return outs, r.noting(worst(errs))
}

// worst returns an error that is not ErrWaiting, if there is one.
func worst(errs []error) (worst error) {
	for _, err := range errs {
		if worst == nil || err != nil && errors.Is(worst, ErrWaiting) {
			worst = err
		}
	}
	return worst
}

// CallAgent runs another agent on query inside this step and waits for its output, which is recorded. It
// ends the open message first. The agent's events are attributed to it, it ends with this worker, and
// its error is returned.
func (r *Run) CallAgent(ctx context.Context, name, query string) (agui.WorkerOutput, error) {
	raw, err := json.Marshal(query)
	if err != nil {
		return agui.WorkerOutput{}, fmt.Errorf("query of %q: %w", name, err)
	}
	u, parent, err := r.use(ctx, r.close, "agent", name, raw)
	if err != nil {
		return agui.WorkerOutput{}, err
	}
	out, err := r.host.CallAgent((&scope{path: u.path()}).in(ctx), parent, u, query)
	return out, r.noting(err)
}

// Ask returns a person's answer to q, which is given its ID, and a Reason when it has none: input_required
// with a ResponseSchema, else confirmation. While there is no answer it returns ErrWaiting, which the worker
// returns in turn; it is called again when the answer is there. Ask ends the open message first. It fails with an *Error of
// the code bad_interrupt when ResponseSchema is no JSON Schema, refers to another document, or to itself without end.
func (r *Run) Ask(ctx context.Context, q agui.Interrupt) (Answer, error) {
	same := q
	same.ID, same.SubagentRunID, same.ExpiresAt = "", "", "" // these are others each time
	raw, err := json.Marshal(same)
	if err != nil {
		return Answer{}, fmt.Errorf("question: %w", err)
	}
	u, _, err := r.use(ctx, r.close, "ask", "", raw)
	if err != nil {
		return Answer{}, err
	}
	answer, err := r.host.Ask(ctx, u, q)
	return answer, r.noting(err)
}

// Next takes the messages appended to the run since its start or the last Next; none is nil. It does not
// wait for any, and ends the open message first. Goroutines that call it at the same time take a Branch each.
func (r *Run) Next(ctx context.Context) ([]agui.Message, error) {
	const what = "A Next"
	s := r.scopeOf(ctx)
	u, _, err := r.use(ctx, func() error {
		if err := r.close(); err != nil {
			return err
		}
		return s.begin(what)
	}, "next", "", nil)
	if err != nil {
		return nil, err
	}
	defer s.end(what)
	messages, err := r.host.Next(ctx, u)
	if err != nil || len(messages) == 0 {
		return nil, err
	}
	return messages, nil
}

// use is place for a single one.
func (r *Run) use(ctx context.Context, prepare func() error, kind, name string, request json.RawMessage) (u Use, parent string, err error) {
	uses := []Use{{Name: name, Request: request}}
	parent, err = r.place(ctx, prepare, kind, uses)
	return uses[0], parent, err
}

// place does what uses of a kind need done first, gives them their places and returns the latest assistant
// message's id.
func (r *Run) place(ctx context.Context, prepare func() error, kind string, uses []Use) (parent string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := prepare(); err != nil {
		return "", err
	}
	s := r.scopeOf(ctx)
	for i := range uses {
		if uses[i].ID == "" {
			uses[i].Place = s.place(kind, uses[i].Name)
		}
	}
	if r.last != nil {
		parent = r.last.id
		r.last.called = r.last.called || kind == "tool" || kind == "agent"
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
