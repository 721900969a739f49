package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
)

// step is what one worker runs on: one execution of a node, or a sub-agent inside one.
type step struct {
	l        *live
	ctx      context.Context
	number   int    // of the step, 1.. in the run
	node     string // the workflow's node
	agent    string // who the events are attributed to
	subagent string // the sub-agent invocation, empty for the node's own worker
	parent   *step  // of a sub-agent
	scope    string // keeps a sub-agent's memos apart from its parent's

	own   agui.Verifier // what this step alone has open; guarded by l.mu
	ended bool          // guarded by l.mu

	mu    sync.Mutex // guards the fields below; taken before l.mu
	uses  map[string]int
	inUse map[string]bool
	depth int          // of Do
	held  []agui.Event // events that are committed with the next one, a record, or the end of the step
}

var _ plugins.Host = (*step)(nil)

func newStep(ctx context.Context, l *live, number int, node, agent string) *step {
	s := &step{l: l, ctx: ctx, number: number, node: node, agent: agent, uses: make(map[string]int), inUse: make(map[string]bool)}
	_ = s.own.Add(agui.RunStarted{}) // so that it takes what follows
	return s
}

// closedBy says why the step may not emit any more. l.mu is held.
func (s *step) closedBy(l *live) error {
	switch {
	case l.gate != nil:
		return l.gate
	case s.ended:
		return plugins.ErrEnded
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	}
	return nil
}

// isOrLeads reports whether s is other or a step that other works for.
func (s *step) isOrLeads(other *step) bool {
	for p := other; p != nil; p = p.parent {
		if p == s {
			return true
		}
	}
	return false
}

// note keeps account of what the step, and the steps it works for, have open. l.mu is held.
func (s *step) note(ev agui.Event) {
	for p := s; p != nil; p = p.parent {
		_ = p.own.Add(ev) // the run's verifier has admitted it
	}
}

// end refuses whatever the worker emits from now on.
func (s *step) end() {
	s.l.mu.Lock()
	s.ended = true
	s.l.turn.Broadcast()
	s.l.mu.Unlock()
}

// NewID mints a message id.
func (s *step) NewID() string { return s.l.mint() }

// Emit queues one event. One that ends something waits for the next event, for the record of the Do it stands
// in or for the end of the step, and is stored with it: a crash in between would otherwise keep the event and
// repeat what it belongs to.
func (s *step) Emit(ev agui.Event) error {
	if err := s.l.own(s.ctx, ev); err != nil {
		return err
	}
	s.mu.Lock()
	held, last := s.held, s.waits(ev.Type())
	s.held = nil
	if last {
		s.held = []agui.Event{s.attribute(ev)}
	}
	s.mu.Unlock()
	switch {
	case !last && held == nil:
		return s.l.emit(s, nil, nil, ev)
	case !last:
		return s.l.emit(s, nil, nil, append(held, ev)...)
	case held != nil:
		return s.l.emit(s, nil, nil, held...)
	}
	return nil
}

// attribute says in ev who emits it, unless ev says so itself.
func (s *step) attribute(ev agui.Event) agui.Event {
	base := ev.Common()
	if base.Agent == "" {
		base.Agent = s.agent
	}
	if base.SubagentRunID == "" {
		base.SubagentRunID = s.subagent
	}
	return ev.WithCommon(base)
}

// waits reports whether an event of type t is held. While several Do are running nobody can tell whose an
// event is, and none is. s.mu is held.
func (s *step) waits(t agui.Type) bool {
	switch t {
	case agui.TypeTextMessageEnd:
		return s.depth <= 1
	case agui.TypeReasoningEnd, agui.TypeToolCallResult, agui.TypeStateSnapshot, agui.TypeActivitySnapshot:
		return s.depth == 1
	}
	return false
}

// takeHeld returns the event that waits for a record, if any.
func (s *step) takeHeld() []agui.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.held
	s.held = nil
	return held
}

// hold keeps events until the step's next one, its record or its end.
func (s *step) hold(evs ...agui.Event) {
	s.mu.Lock()
	s.held = append(s.held, evs...)
	s.mu.Unlock()
}

// PatchState merges patch into the thread's state.
func (s *step) PatchState(patch json.RawMessage) error {
	if held := s.takeHeld(); held != nil {
		if err := s.l.emit(s, nil, nil, held...); err != nil {
			return err
		}
	}
	return s.l.patch(s, patch)
}

// use counts one use of name and returns its memo, recorded or new. release ends the use.
func (s *step) use(name string) (m *Memo, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inUse[name] {
		return nil, nil, &plugins.Error{Code: "name_in_use", Message: fmt.Sprintf("%q is used twice at the same time", name)}
	}
	s.inUse[name] = true
	s.uses[name]++
	release = func() {
		s.mu.Lock()
		delete(s.inUse, name)
		s.mu.Unlock()
	}
	l := s.l
	key := memoKey{s.number, s.scope + name, s.uses[name]}
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.memos[key]; m != nil {
		found := *m
		return &found, release, nil
	}
	return &Memo{RunKey: l.run.Key, Generation: l.run.Generation, Step: key.step, Name: key.name, N: key.n}, release, nil
}

// keep remembers a memo for the next call of the worker in this process.
func (s *step) keep(m *Memo) *Memo {
	row := *m
	s.l.mu.Lock()
	s.l.memos[memoKey{m.Step, m.Name, m.N}] = &row
	s.l.mu.Unlock()
	return &row
}

// record completes a memo and waits until it is stored together with evs.
func (s *step) record(m *Memo, output json.RawMessage, evs ...agui.Event) error {
	m.Done, m.Output = true, output
	row := s.keep(m)
	return s.l.wait(func(done func(error)) error { return s.l.emit(s, []Row{row}, done, evs...) })
}

// Do returns the record of this use of name, or what fn returns once it is recorded.
func (s *step) Do(ctx context.Context, name string, fn func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	m, release, err := s.use("do:" + name)
	if err != nil {
		return nil, err
	}
	defer release()
	if m.Done {
		return m.Output, nil
	}
	ctx, spent := s.spending(ctx)
	out, err := s.inside(ctx, fn)
	held := s.takeHeld()
	if err != nil {
		if rows := spent.rows(); len(held) > 0 || rows != nil {
			err = errors.Join(err, s.l.emit(s, rows, nil, held...))
		}
		return nil, err
	}
	return out, s.recordSpent(m, out, spent, held...)
}

// inside calls fn as Do's. While several are running, nobody can tell whose an event is: none is held.
func (s *step) inside(ctx context.Context, fn func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	s.mu.Lock()
	s.depth++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.depth--
		s.mu.Unlock()
	}()
	if held := s.takeHeld(); held != nil {
		if err := s.l.emit(s, nil, nil, held...); err != nil {
			return nil, err
		}
	}
	return fn(ctx)
}

// Ask records the question, or returns its answer.
func (s *step) Ask(_ context.Context, q agui.Interrupt) (plugins.Answer, error) {
	m, release, err := s.use("ask")
	if err != nil {
		return plugins.Answer{}, err
	}
	defer release()
	return s.question(m, q)
}

// question is Ask for any memo. A question that is recorded already waits on.
func (s *step) question(m *Memo, q agui.Interrupt) (plugins.Answer, error) {
	var a plugins.Answer
	if m.Done {
		err := json.Unmarshal(m.Output, &a)
		return a, err
	}
	if m.CallID != "" {
		return a, plugins.ErrWaiting
	}
	q.ID, q.SubagentRunID = newID(), s.subagent
	if q.Reason == "" {
		q.Reason = "confirmation"
		if q.ResponseSchema != nil {
			q.Reason = "input_required"
		}
	}
	in := &Interrupt{
		ID: q.ID, RunKey: m.RunKey, Step: m.Step, Name: m.Name, N: m.N,
		Status: interruptOpen, CreatedAt: time.Now(),
	}
	if q.ExpiresAt != "" {
		at, err := time.Parse(time.RFC3339, q.ExpiresAt)
		if err != nil {
			return a, &plugins.Error{Code: "bad_interrupt", Message: "expiresAt must be an RFC 3339 time"}
		}
		in.ExpiresAt = &at
	}
	if in.Body = mustJSON(q); len(in.Body) > maxQuestion {
		return a, &plugins.Error{Code: "bad_interrupt", Message: "A question may hold 256 KiB"}
	}
	m.CallID = q.ID
	s.l.asked.Store(true)
	if err := s.l.emit(s, []Row{s.keep(m), in}, nil, s.takeHeld()...); err != nil {
		return a, err
	}
	return a, plugins.ErrWaiting
}

// maxQuestion keeps the RUN_FINISHED that lists a run's open questions within the size of an event.
const maxQuestion = 256 << 10

// The statuses of an Interrupt. An answer makes it answered, the answer's span resolved or cancelled.
const (
	interruptOpen      = model.InterruptOpen
	interruptAnswered  = model.InterruptAnswered
	interruptResolved  = model.InterruptResolved
	interruptCancelled = model.InterruptCancelled
)

// Next takes the messages that were appended meanwhile. That there were none is recorded too, so that a
// worker called again meets its messages where it met them first.
func (s *step) Next(ctx context.Context) ([]agui.Message, error) {
	m, release, err := s.use("next")
	if err != nil {
		return nil, err
	}
	defer release()
	if m.Done {
		var msgs []agui.Message
		err := json.Unmarshal(m.Output, &msgs)
		return msgs, err
	}
	l := s.l
	if l.inbox.Load() == 0 {
		m.Done, m.Output = true, json.RawMessage("[]")
		return nil, l.emit(s, []Row{s.keep(m)}, nil, s.takeHeld()...)
	}
	return s.takeMessages(ctx, m)
}

func (s *step) takeMessages(ctx context.Context, m *Memo) ([]agui.Message, error) {
	l := s.l
	if held := s.takeHeld(); held != nil {
		if err := l.emit(s, nil, nil, held...); err != nil {
			return nil, err
		}
	}
	l.rt.com.room(l)
	queued, err := patiently(s.ctx, func() ([]Message, error) { return l.rt.store.Queued(ctx, l.run.Key) })
	if err != nil {
		return nil, err
	}
	stored := make(chan error, 1)
	l.mu.Lock()
	l.awaitTurn(s)
	if err := s.closedBy(l); err != nil {
		l.mu.Unlock()
		return nil, err
	}
	// What an earlier Next took may still be on its way to the store.
	queued = slices.DeleteFunc(queued, func(q Message) bool { return l.w.messages[q.ID] != nil })
	msgs := make([]agui.Message, len(queued))
	for i := range queued {
		msgs[i] = queued[i].Message
	}
	it := &item{t: l.t, l: l, done: []func(error){func(err error) { stored <- err }}}
	if err := l.w.take(it, queued); err != nil {
		l.rt.com.add(it) // what was numbered is written
		l.mu.Unlock()
		return nil, err
	}
	l.inbox.Add(-int64(len(queued)))
	m.Done, m.Output = true, mustJSON(msgs)
	row := *m
	l.memos[memoKey{m.Step, m.Name, m.N}] = &row
	it.rows = append(it.rows, &row)
	l.rt.com.add(it)
	l.mu.Unlock()
	return msgs, <-stored
}

// closeOpen closes what the step has left open; with answer, the calls it left unanswered fail with code, and
// without, as the step waits, its sub-agents are suspended. l.mu is held.
func (s *step) closeOpen(it *item, output agui.WorkerOutput, code string, answer bool) error {
	l := s.l
	for _, ev := range s.own.Closers() {
		switch e := ev.(type) {
		case agui.TextMessageEnd:
			out := output
			out.Answer = l.w.fold.Text(e.MessageID)
			e.Output = &out
			ev = e
		case agui.SubagentFinished:
			if err := s.failCalls(it, code, answer); err != nil {
				return err
			}
			switch {
			case output.Error != nil:
				ev = agui.SubagentError{Base: e.Base, Message: output.Error.Message, Code: output.Error.Code}
			case !answer:
				e.Outcome = json.RawMessage(`{"type":"suspended"}`)
				ev = e
			}
		}
		if err := l.stage(it, s, ev); err != nil {
			return err
		}
	}
	return s.failCalls(it, code, answer)
}

func (s *step) failCalls(it *item, code string, answer bool) error {
	if !answer {
		return nil
	}
	for _, id := range s.own.Unanswered() {
		if err := s.l.stage(it, s, failedCall(id, s.l.calls[id], code)); err != nil {
			return err
		}
	}
	return nil
}

// isOuter reports whether a closer ends a step or a sub-agent, which go on after a crash.
func isOuter(ev agui.Event) bool {
	switch ev.Type() {
	case agui.TypeStepFinished, agui.TypeSubagentFinished, agui.TypeSubagentError:
		return true
	}
	return false
}
