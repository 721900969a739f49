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

// Do calls fn unless its record exists. The record has the value of *out and is stored with the last event that fn
// emitted; on replay *out is set from the record. out is a pointer to a value that survives JSON, or nil. If the process
// dies before the record is stored, fn is called again: use a Tool that is not Idempotent for work that must never run
// twice.
//
// An error of fn is returned and not recorded. A message that fn leaves open is ended before the record is made, with its
// own text as answer, even if it is the worker's last. Pass fn's context to the calls inside fn: their places are then
// inside this Do, and on replay they are skipped with it.
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
		defer r.settleCall(inner, nil)
		return r.record(ctx, inner, out, fn)
	})
	if err != nil || called {
		return r.noteWaiting(err)
	}
	return r.replay(name, raw, out)
}

// record is the JSON form of a Do's record: fn's result, and fn's last message for the rest of the step.
type record struct {
	Output    json.RawMessage `json:"output,omitempty"`
	MessageID string          `json:"messageId,omitempty"` // of the last assistant message that fn started
	Text      string          `json:"text,omitempty"`
}

func (r *Run) record(ctx context.Context, s *scope, out any, fn func(ctx context.Context) error) (rec Record, err error) {
	open, last, err := r.within(s.in(ctx), s.do, fn)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if !errors.Is(err, ErrWaiting) {
			_, _ = r.withdraw(s.do) // fn's error is more specific
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

// encode returns v as JSON without escaping <, > and &.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// within calls fn as the Do d, and returns the messages that were open and latest before.
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

// CallTool calls a tool with the JSON of args, an object or nil for none, and waits for the result, which is recorded.
// Failures of the tool, unknown tools and invalid arguments are not errors: the output's Status reports them. CallTool
// returns ErrWaiting if a client or a person has to answer first.
//
// If no tool but an agent has the name, that agent runs inside this step, as with CallAgent, with the string query of
// the arguments.
//
// A tool that is not Idempotent is called at most once: the start of its call is recorded first, and if the process dies
// during the call, the result is a failure with the code interrupted.
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
	ID   string // of the announced call that had these arguments; otherwise empty

	// Output is set if the worker answers the call itself: the result of its own tool, or a failure such as unreadable arguments.
	// The log shows and records the call with this output.
	Output *agui.ToolOutput
}

// MaxCalls is the number of calls that a worker makes at once. Others wait for their turn.
const MaxCalls = 128

// CallTools makes several calls concurrently, MaxCalls at a time, and returns their outputs in the order of the calls. If some of
// them wait for an answer it returns ErrWaiting after the others of that time have their results.
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
		uses[i].Request, uses[i].Output = raw, c.Output
	}
	parent, err := r.place(ctx, r.ready, "tool", uses)
	if err != nil {
		return nil, err
	}
	guards := checker{run: r}
	for i := range uses {
		if err := guards.call(ctx, &uses[i]); err != nil {
			return nil, err
		}
		uses[i].Recheck = guards.recheck(ctx, uses[i])
	}
	outs := make([]agui.ToolOutput, len(uses))
	for from := 0; from < len(uses); from += MaxCalls {
		group := uses[from:min(from+MaxCalls, len(uses))]
		if opened, err := r.callGroup(ctx, parent, group, outs[from:]); err != nil {
			if !opened {
				outs = nil
			}
			return outs, r.noteWaiting(err)
		}
	}
	return outs, nil
}

// callGroup makes calls at once and fills in their outputs. It reports whether they were opened.
func (r *Run) callGroup(ctx context.Context, parent string, uses []Use, outs []agui.ToolOutput) (opened bool, err error) {
	if err := r.host.OpenCalls(ctx, parent, uses); err != nil {
		return false, err
	}
	errs := make([]error, len(uses))
	var made sync.WaitGroup
	for i, u := range uses {
		ctx := (&scope{path: u.path()}).in(ctx) // the scope of an agent that is called
		made.Go(func() {
			errs[i] = protect(func() (err error) {
				outs[i], err = r.host.CallTool(ctx, u)
				return err
			})
		})
	}
	made.Wait()
	for i := range uses {
		if errs[i] == nil {
			errs[i] = checker{run: r}.result(ctx, uses[i], &outs[i])
		}
	}
	return true, worst(errs)
}

// worst returns an error other than ErrWaiting if there is one.
func worst(errs []error) (worst error) {
	for _, err := range errs {
		if worst == nil || err != nil && errors.Is(worst, ErrWaiting) {
			worst = err
		}
	}
	return worst
}

// CallAgent runs another agent on query inside this step and waits for its output, which is recorded. It ends the open
// message first. The events are attributed to that agent, it stops with this worker, and its error is returned.
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
	return out, r.noteWaiting(err)
}

// Ask returns a person's answer to q. It sets q's ID, and the default Reason: input_required with a ResponseSchema,
// otherwise confirmation. Until the answer arrives it returns ErrWaiting, which the worker must return; the worker is
// replayed then. Ask ends the open message first. It fails with an *Error of the code bad_interrupt if ResponseSchema is
// not a JSON Schema, refers to another document, or refers to itself endlessly.
func (r *Run) Ask(ctx context.Context, q agui.Interrupt) (Answer, error) {
	same := q
	same.ID, same.SubagentRunID, same.ExpiresAt = "", "", "" // these differ on each replay
	raw, err := json.Marshal(same)
	if err != nil {
		return Answer{}, fmt.Errorf("question: %w", err)
	}
	u, _, err := r.use(ctx, r.close, "ask", "", raw)
	if err != nil {
		return Answer{}, err
	}
	if !IsVerdict(u.Place) {
		if err := (checker{run: r}).question(ctx, u); err != nil {
			return Answer{}, err
		}
	}
	answer, err := r.host.Ask(ctx, u, q)
	if err == nil && !IsVerdict(u.Place) {
		err = checker{run: r}.given(ctx, u, textsIn(answer.Payload), nil, "an answer")
	}
	return answer, r.noteWaiting(err)
}

// MaxMessages is how many messages Run.Messages returns at most.
const MaxMessages = 2000

// Messages returns the newest messages of the thread, oldest first, as they were when the run began: at most limit, or with 0 as many
// as there are, up to MaxMessages and 8 MB. It reports whether the thread has more. The instructions (messages of the roles system and
// developer) are included however old they are. Each call has its result, except calls and results that are alone: those are left out.
// A worker that another one called has only its query. A worker with guards of its input gets no reasoning, no activities and no members
// that AG-UI does not know.
//
// Messages blocks while the database is read. Ask for few messages first, because those of a long thread are expensive. Do not change what
// they refer to, such as their metadata: other runs of the thread get the same.
func (r *Run) Messages(ctx context.Context, limit int) (list []agui.Message, more bool, err error) {
	list, more, err = r.host.Messages(ctx, limit)
	list = r.judged(list)
	if r.rewritten != nil {
		list = slices.DeleteFunc(list, func(m agui.Message) bool { return slices.Contains(r.rewrote, m.ID) })
		list = append(list, *r.rewritten)
	}
	return list, more, err
}

// Next returns the messages appended to the run since its start or the last Next, or nil if there are none. It does not
// block, and ends the open message first. Goroutines that call it concurrently need a Branch each.
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
	return checker{run: r}.appended(ctx, u, r.judged(messages))
}

// judged returns messages without what guards of the input do not judge: reasoning, activities and unknown members.
func (r *Run) judged(list []agui.Message) []agui.Message {
	if len(r.guards.Input) == 0 {
		return list
	}
	list = slices.DeleteFunc(slices.Clone(list), func(m agui.Message) bool { return m.Role == agui.RoleReasoning || m.Role == agui.RoleActivity })
	for i := range list {
		list[i].Extra = nil
	}
	return list
}

// use is place for a single use.
func (r *Run) use(ctx context.Context, prepare func() error, kind, name string, request json.RawMessage) (u Use, parent string, err error) {
	uses := []Use{{Name: name, Request: request}}
	parent, err = r.place(ctx, prepare, kind, uses)
	return uses[0], parent, err
}

// place runs prepare, assigns places to uses of one kind and returns the latest assistant message's id.
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

// noteWaiting returns err and marks the step as waiting if err is ErrWaiting.
func (r *Run) noteWaiting(err error) error {
	if errors.Is(err, ErrWaiting) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.waiting = true
	}
	return err
}
