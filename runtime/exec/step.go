package exec

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/answer"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/fold"
	"github.com/batonrun/baton/runtime/journal"
	"github.com/batonrun/baton/runtime/span"
)

// step is the host of one worker: for one execution of a node, or for a sub-agent inside one.
type step struct {
	l        *Live
	w        span.Worker
	node     string // the workflow's node
	approves bool   // its tool needs an approval, whatever the tool says
	approver plugins.Approver
	message  func() (string, error) // the question of that approval, "" for the default
	messages []agui.Message         // of a worker that does not get those of the thread

	// Guarded by l.mu.
	dos  journal.Doings // each Do with a running function
	held []agui.Event   // queued with the step's next events
	owed error          // why an event without a caller was refused; returned by the step's next use
}

var (
	_ plugins.Host      = (*step)(nil)
	_ host.ModelWatcher = (*step)(nil)
	_ host.ModelLimiter = (*step)(nil)
	_ host.Idler        = (*step)(nil)
	_ host.GuardCaller  = (*step)(nil)
	_ host.Rememberer   = (*step)(nil)
)

func newStep(ctx context.Context, l *Live, number int, node, agent string) *step {
	return &step{l: l, w: span.Worker{Ctx: ctx, Step: number, Agent: agent}, node: node}
}

// end makes the step refuse all later events.
func (s *step) end() {
	s.l.mu.Lock()
	s.w.Ended = true
	s.l.turn.Broadcast()
	s.l.mu.Unlock()
}

// NewID returns a new message id. The journal remembers it until the worker uses it, so that its owner is known.
func (s *step) NewID() string {
	id := data.NewID()
	s.l.mu.Lock()
	s.l.journal.Mint(id)
	s.l.mu.Unlock()
	return id
}

// Messages returns the newest messages of the thread; for a worker that another one called only its query.
func (s *step) Messages(ctx context.Context, limit int) ([]agui.Message, bool, error) {
	if s.messages != nil {
		return slices.Clone(s.messages), false, nil
	}
	return s.l.history.messages(ctx, s.l, limit)
}

// Emit queues one event. An event that ends something waits for the next event, for the record of its Do, or for the end of
// the step, and is stored with that. Otherwise a crash in between would keep the event and repeat the work it belongs to.
func (s *step) Emit(ev agui.Event) error { return s.emit(ev, nil) }

// emit is Emit for an event with rows, which are stored with it, or with an item before it if it is held. rows is called with l.mu
// held, and may be nil.
func (s *step) emit(ev agui.Event, rows func() []data.Row) error {
	if err := s.own(ev); err != nil {
		return err
	}
	l := s.l
	l.source.Room()
	l.mu.Lock()
	defer l.mu.Unlock()
	ev = l.span.OfItsCall(ev)
	if !waits(ev, len(s.dos)) && !s.follows(ev) {
		with := s.dos.Showing(ev, l.span.Messages.Has)
		if rows == nil {
			return l.queue(s, with, nil, ev)
		}
		err := l.queue(s, append(with, rows()...), nil, ev)
		if err != nil {
			l.prompts.Lose()
		}
		return err
	}
	if !joins(ev, s.held) {
		if err := l.queue(s, nil, nil); err != nil {
			return err
		}
	}
	s.held = append(s.held, agui.At(time.Now(), l.span.Attribute(&s.w, ev)))
	if rows != nil {
		l.owed = append(l.owed, rows()...)
	}
	return nil
}

// own refuses ids in an event that messages of others have. Clients and rows identify messages and calls by their ids, over all runs of a
// thread: one that an earlier run or generation has used would change the earlier message or call. The ids that a worker makes up, or
// takes from its input, are looked up once.
func (s *step) own(ev agui.Event) error {
	l := s.l
	l.mu.Lock()
	ids, err := l.span.Foreign(ev, l.journal.TakeMinted)
	l.mu.Unlock()
	if err != nil || len(ids) == 0 {
		return err
	}
	taken, err := commit.RetryUnavailable(s.w.Ctx, func() ([]data.MessageHead, error) {
		return l.cfg.Store.MessageHeads(s.w.Ctx, l.span.Thread.Key, ids)
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.span.Taken(ids, taken)
}

// emitOwn emits an event of the engine, with its rows. If this event or an earlier held one is refused, the worker gets the
// error with its next use of the step.
func (s *step) emitOwn(ev agui.Event, rows func() []data.Row) (emitted bool) {
	err := s.emit(ev, rows)
	if err == nil {
		return true
	}
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.owed = err
	return false
}

// joins reports whether ev is held beside the held events: the end of reasoning beside the end of its message, and the end
// of a model call beside the ends of its answer, in either order.
func joins(ev agui.Event, held []agui.Event) bool {
	n := len(held)
	if n == 0 || n == maxHeld {
		return false
	}
	last := held[n-1].Type()
	return ev.Type() == agui.TypeCustom || last == agui.TypeCustom || ev.Type() == agui.TypeReasoningEnd && last == agui.TypeReasoningMessageEnd
}

// maxHeld limits the held events, because they do not count as unwritten.
const maxHeld = 8

// waits reports whether ev of a step with so many running Dos is held. While several are running, the owner of an event is
// unknown, and none is held.
func waits(ev agui.Event, dos int) bool {
	switch ev.Type() {
	case agui.TypeTextMessageEnd:
		return dos <= 1 && !span.IsCut(ev) // a cut text repeats nothing, and other steps wait for its end
	case agui.TypeReasoningMessageEnd, agui.TypeReasoningEnd, agui.TypeToolCallResult, agui.TypeStateSnapshot, agui.TypeActivitySnapshot:
		return dos == 1
	case agui.TypeCustom:
		c, ok := agui.ModelCallOf(ev.(agui.Custom))
		over := ok && c.Status == agui.ModelFinished // a failed call is over whatever follows
		return (over || ev.(agui.Custom).Name == agui.GuardEvent) && dos == 1
	}
	return false
}

// follows reports whether ev retracts what the held verdict of a guard refuses. They are stored together with the verdict's record.
func (s *step) follows(ev agui.Event) bool {
	if len(s.held) == 0 {
		return false
	}
	last, ruled := s.held[len(s.held)-1].(agui.Custom)
	c, ok := ev.(agui.Custom)
	return ok && ruled && c.Name == agui.RetractedEvent && last.Name == agui.GuardEvent
}

// takeHeld removes and returns the held events. l.mu is held.
func (s *step) takeHeld() []agui.Event {
	held := s.held
	s.held = nil
	return held
}

// PatchState merges an RFC 7396 patch into the thread's state.
func (s *step) PatchState(patch json.RawMessage) error {
	l := s.l
	l.source.Room()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.queue(s, nil, nil); err != nil { // a held event may change the state
		return err
	}
	_, ev, err := fold.MergePatch(l.span.State(), patch)
	if err != nil {
		return &plugins.Error{Code: "bad_state", Message: err.Error()}
	}
	if ev == nil {
		return nil
	}
	return l.queue(s, nil, nil, ev)
}

// memo returns a copy of the record of u, or a new one when there is none.
func (s *step) memo(u plugins.Use) (*data.Memo, error) {
	l := s.l
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.journal.Memo(&l.run, s.w.Step, u, 2*l.cfg.RunMessages) // a tool's result in a Do is recorded for both
}

// store waits until a memo as it is now is stored, with more rows and evs.
func (s *step) store(m *data.Memo, more []data.Row, evs ...agui.Event) error {
	rows := append([]data.Row{new(*m)}, more...)
	return s.l.wait(func(done func(error)) error { return s.l.emit(s, rows, done, evs...) })
}

// record completes a memo and stores it.
func (s *step) record(m *data.Memo, output json.RawMessage, more []data.Row, evs ...agui.Event) error {
	m.Done, m.Output = true, output
	return s.store(m, more, evs...)
}

// Do returns the record of u. If there is none, it calls fn, and returns fn's result once it is recorded.
func (s *step) Do(ctx context.Context, u plugins.Use, fn func(context.Context) (plugins.Record, error)) (json.RawMessage, error) {
	m, err := s.memo(u)
	if err != nil {
		return nil, err
	}
	if m.Done {
		return m.Output, nil
	}
	if err := s.pass(ctx); err != nil {
		return nil, err
	}
	if err := s.do(ctx, m, fn); err != nil {
		return nil, err
	}
	return m.Output, s.pass(ctx)
}

// do calls the function of a Do and completes its memo with the result.
func (s *step) do(ctx context.Context, m *data.Memo, fn func(context.Context) (plugins.Record, error)) error {
	s.l.work(1)
	defer s.l.work(-1)
	if err := s.l.emit(s, nil, nil); err != nil { // the held events have nothing to do with fn
		return err
	}
	d := &journal.Doing{Memo: *m}
	rec, err := s.inside(ctx, d, fn)
	if err != nil {
		return errors.Join(err, s.l.emit(s, nil, nil))
	}
	m.Done, m.Output = true, rec.Output
	rows := append([]data.Row{m}, d.Over()...)
	for _, call := range rec.Calls {
		rows = append(rows, &data.Memo{
			RunKey: m.RunKey, Generation: m.Generation, Step: m.Step, Place: call.Place, CallID: call.ID, Tool: call.Name,
		})
	}
	return s.l.wait(func(done func(error)) error { return s.l.emit(s, rows, done) })
}

// inside calls fn as the function of a Do.
func (s *step) inside(ctx context.Context, d *journal.Doing, fn func(context.Context) (plugins.Record, error)) (plugins.Record, error) {
	d.Outer, _ = ctx.Value(doingKey{&s.w}).(*journal.Doing)
	s.l.mu.Lock()
	s.dos = append(s.dos, d)
	s.l.mu.Unlock()
	defer func() {
		s.l.mu.Lock()
		s.dos = slices.DeleteFunc(s.dos, func(other *journal.Doing) bool { return other == d })
		s.l.mu.Unlock()
	}()
	return fn(context.WithValue(ctx, doingKey{&s.w}, d))
}

type doingKey struct{ w *span.Worker }

// Ask records the question, or returns its answer.
func (s *step) Ask(_ context.Context, u plugins.Use, q agui.Interrupt) (plugins.Answer, error) {
	m, err := s.memo(u)
	if err != nil {
		return plugins.Answer{}, err
	}
	return s.question(m, "", q)
}

// question is Ask for any memo. tool is the tool of an approval, else empty. A recorded question keeps waiting.
func (s *step) question(m *data.Memo, tool string, q agui.Interrupt) (plugins.Answer, error) {
	var a plugins.Answer
	if m.Done {
		err := json.Unmarshal(m.Output, &a)
		return a, err
	}
	if m.CallID != "" {
		return a, plugins.ErrWaiting
	}
	q.ID, q.SubagentRunID = data.NewID(), s.w.Subagent
	if q.Reason == "" {
		q.Reason = "confirmation"
		if q.ResponseSchema != nil {
			q.Reason = "input_required"
		}
	}
	in := &data.Interrupt{
		ID: q.ID, RunKey: m.RunKey, Step: m.Step, Place: m.Place, Tool: tool, Status: data.InterruptOpen, CreatedAt: time.Now(),
	}
	if q.ExpiresAt != "" {
		at, err := time.Parse(time.RFC3339, q.ExpiresAt)
		if err != nil {
			return a, &plugins.Error{Code: "bad_interrupt", Message: "expiresAt must be an RFC 3339 time"}
		}
		in.ExpiresAt = &at
	}
	if in.Body = data.MustJSON(q); len(in.Body) > journal.MaxQuestion {
		return a, &plugins.Error{Code: "bad_interrupt", Message: "A question may hold 256 KiB"}
	}
	if err := answer.CheckQuestion(in.Body); err != nil {
		return a, &plugins.Error{Code: "bad_interrupt", Message: "A question's " + err.Error()}
	}
	s.l.mu.Lock()
	err := s.l.journal.MayAsk()
	s.l.mu.Unlock()
	if err != nil {
		return a, err
	}
	m.CallID = q.ID
	s.l.asked.Store(true)
	if err := s.l.emit(s, []data.Row{m, in}, nil); err != nil {
		return a, err
	}
	return a, plugins.ErrWaiting
}

// Next takes the messages that were appended meanwhile. An empty result is recorded too, so that a replayed worker receives
// its messages at the same place.
func (s *step) Next(ctx context.Context, u plugins.Use) ([]agui.Message, error) {
	m, err := s.memo(u)
	if err != nil {
		return nil, err
	}
	if m.Done {
		var msgs []agui.Message
		err := json.Unmarshal(m.Output, &msgs)
		return msgs, err
	}
	if err := s.pass(ctx); err != nil {
		return nil, err
	}
	l := s.l
	if l.Inbox.Load() == 0 {
		m.Done, m.Output = true, json.RawMessage("[]")
		return nil, s.l.emit(s, []data.Row{new(*m)}, nil)
	}
	return s.takeMessages(ctx, m)
}

func (s *step) takeMessages(ctx context.Context, m *data.Memo) ([]agui.Message, error) {
	l := s.l
	if err := l.emit(s, nil, nil); err != nil {
		return nil, err
	}
	l.source.Room()
	queued, err := commit.RetryUnavailable(s.w.Ctx, func() ([]data.Message, error) { return l.cfg.Store.Queued(ctx, l.run.Key) })
	if err != nil {
		return nil, err
	}
	stored := make(chan error, 1)
	l.mu.Lock()
	l.awaitTurn(s)
	if err := l.span.Closed(&s.w); err != nil {
		l.mu.Unlock()
		return nil, err
	}
	// Messages of an earlier Next may still be on their way to the store.
	queued = slices.DeleteFunc(queued, func(q data.Message) bool { return l.span.Messages.Has(q.ID) })
	msgs := make([]agui.Message, len(queued))
	for i := range queued {
		msgs[i] = queued[i].Message
	}
	it := l.item()
	it.Done = []func(error){func(err error) { stored <- err }}
	if err := l.span.Take(it, queued); err != nil {
		l.cfg.Commits.Add(it) // numbered events are written
		l.mu.Unlock()
		return nil, err
	}
	for i := range queued {
		l.prompts.Learn(&queued[i])
	}
	l.Inbox.Add(-int64(len(queued)))
	m.Done, m.Output = true, data.MustJSON(msgs)
	l.record(it, new(*m))
	l.cfg.Commits.Add(it)
	l.mu.Unlock()
	return msgs, <-stored
}

// closeOpen closes everything that the step has left open. With answer, its unanswered calls fail as interrupted. Without,
// because the step waits, its sub-agents are suspended. If the output is an error, what the worker was about to retract is retracted. l.mu is held.
func (s *step) closeOpen(it *commit.Item, output agui.WorkerOutput, answer bool) error {
	l := s.l
	for _, ev := range l.span.Ver.Closers() {
		if !l.span.Owns(&s.w, ev) {
			continue
		}
		switch e := ev.(type) {
		case agui.TextMessageEnd:
			out := output
			out.Answer = l.span.Fold.Text(e.MessageID)
			e.Output = &out
			ev = e
		case agui.SubagentFinished:
			if err := s.failCalls(it, answer); err != nil {
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
	if err := s.failCalls(it, answer); err != nil || output.Error == nil {
		return err
	}
	return l.span.RetractCut(it)
}

// failCalls settles the open calls and questions of a step that is over, or has failed: the calls fail, also in their
// records, and the questions are cancelled. A sub-agent that is called again asks them anew.
func (s *step) failCalls(it *commit.Item, answer bool) error {
	if !answer {
		return nil
	}
	l := s.l
	for _, id := range l.span.Ver.Unanswered() {
		if !l.span.Owns(&s.w, agui.ToolCallStart{ToolCallID: id}) && !l.journal.LeftBy(s.w.Step, s.w.Within, id) {
			continue
		}
		if err := l.failCall(it, s, id); err != nil {
			return err
		}
	}
	it.Rows = append(it.Rows, l.journal.CancelQuestions(s.w.Step, s.w.Within)...)
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
