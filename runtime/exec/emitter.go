package exec

import (
	"encoding/json"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/journal"
	"github.com/batonrun/baton/runtime/prompts"
	"github.com/batonrun/baton/runtime/span"
)

// emitter emits the events of one worker, and writes its records.
type emitter struct {
	out  *writer
	w    *span.Worker
	node string // the workflow's node

	// Guarded by out.mu.
	dos     journal.Doings  // each Do with a running function
	held    []agui.Event    // queued with the worker's next events
	refused error           // why an event without a caller was refused; returned by the next use
	asking  []*prompts.Call // calls of models that are under way
}

// end makes the step refuse all later events.
func (em *emitter) end() {
	em.out.mu.Lock()
	em.w.Ended = true
	em.out.turn.Broadcast()
	em.out.mu.Unlock()
}

// put waits for room in the commit queue, then queues the held events, rows and evs. done may be nil.
func (em *emitter) put(rows []data.Row, done func(error), evs ...agui.Event) error {
	em.out.source.Room()
	em.out.mu.Lock()
	defer em.out.mu.Unlock()
	return em.out.queue(em, rows, done, evs...)
}

// wait calls queue with a done function and waits until the queued item is stored.
func wait(queue func(done func(error)) error) error {
	stored := make(chan error, 1)
	if err := queue(func(err error) { stored <- err }); err != nil {
		return err
	}
	return <-stored
}

// write is put that waits until all is stored.
func (em *emitter) write(rows []data.Row, evs ...agui.Event) error {
	return wait(func(done func(error)) error { return em.put(rows, done, evs...) })
}

// emit is Emit for an event with rows, which are stored with it, or with an item before it if it is held. rows is called with out.mu
// held, and may be nil.
func (em *emitter) emit(ev agui.Event, rows func() []data.Row) error {
	if err := em.own(ev); err != nil {
		return err
	}
	w := em.out
	w.source.Room()
	w.mu.Lock()
	defer w.mu.Unlock()
	ev = w.span.OfItsCall(ev)
	if !waits(ev, len(em.dos)) && !em.follows(ev) {
		with := em.dos.Showing(ev, w.span.Messages.Has)
		if rows == nil {
			return w.queue(em, with, nil, ev)
		}
		err := w.queue(em, append(with, rows()...), nil, ev)
		if err != nil {
			w.prompts.Lose()
		}
		return err
	}
	if !joins(ev, em.held) {
		if err := w.queue(em, nil, nil); err != nil {
			return err
		}
	}
	em.held = append(em.held, agui.At(time.Now(), w.span.Attribute(em.w, ev)))
	if rows != nil {
		w.owed = append(w.owed, rows()...)
	}
	return nil
}

// own refuses ids in an event that messages of others have. Clients and rows identify messages and calls by their ids, over all runs of a
// thread: one that an earlier run or generation has used would change the earlier message or call. The ids that a worker makes up, or
// takes from its input, are looked up once.
func (em *emitter) own(ev agui.Event) error {
	w := em.out
	w.mu.Lock()
	ids, err := w.span.Foreign(ev, w.journal.TakeMinted)
	w.mu.Unlock()
	if err != nil || len(ids) == 0 {
		return err
	}
	taken, err := commit.RetryUnavailable(em.w.Ctx, func() ([]data.MessageHead, error) {
		return w.cfg.Store.MessageHeads(em.w.Ctx, w.span.Thread.Key, ids)
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.span.Taken(ids, taken)
}

// emitOwn emits an event of the engine, with its rows. If this event or an earlier held one is refused, the worker gets the
// error with its next use of the step.
func (em *emitter) emitOwn(ev agui.Event, rows func() []data.Row) (emitted bool) {
	err := em.emit(ev, rows)
	if err != nil {
		em.out.mu.Lock()
		em.refused = err
		em.out.mu.Unlock()
	}
	return err == nil
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

// waits reports whether ev of a step with so many running Dos is held. While several are running, the owner of an event is unknown, and none is held.
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
func (em *emitter) follows(ev agui.Event) bool {
	if len(em.held) == 0 {
		return false
	}
	last, ruled := em.held[len(em.held)-1].(agui.Custom)
	c, ok := ev.(agui.Custom)
	return ok && ruled && c.Name == agui.RetractedEvent && last.Name == agui.GuardEvent
}

// takeHeld removes and returns the held events. out.mu is held.
func (em *emitter) takeHeld() []agui.Event {
	held := em.held
	em.held = nil
	return held
}

// memo returns a copy of the record of u, or a new one when there is none.
func (em *emitter) memo(u plugins.Use) (*data.Memo, error) {
	w := em.out
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.journal.Memo(w.run, em.w.Step, u, 2*w.cfg.RunMessages) // a tool's result in a Do is recorded for both
}

// record completes a memo and stores it.
func (em *emitter) record(m *data.Memo, output json.RawMessage, more []data.Row, evs ...agui.Event) error {
	m.Done, m.Output = true, output
	return em.write(append([]data.Row{new(*m)}, more...), evs...)
}

// closeOpen closes everything that the step has left open. With answer, its unanswered calls fail as interrupted. Without,
// because the step waits, its sub-agents are suspended. If the output is an error, what the worker was about to retract is retracted. out.mu is held.
func (em *emitter) closeOpen(it *commit.Item, output agui.WorkerOutput, answer bool) error {
	w := em.out
	for _, ev := range w.span.Ver.Closers() {
		if !w.span.Owns(em.w, ev) {
			continue
		}
		switch e := ev.(type) {
		case agui.TextMessageEnd:
			out := output
			out.Answer = w.span.Fold.Text(e.MessageID)
			e.Output = &out
			ev = e
		case agui.SubagentFinished:
			if err := em.failCalls(it, answer); err != nil {
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
		if err := w.stage(it, em, ev); err != nil {
			return err
		}
	}
	if err := em.failCalls(it, answer); err != nil || output.Error == nil {
		return err
	}
	return w.span.RetractCut(it)
}

// failCalls settles the open calls and questions of a step that is over, or has failed: the calls fail, also in their
// records, and the questions are cancelled. A sub-agent that is called again asks them anew.
func (em *emitter) failCalls(it *commit.Item, answer bool) error {
	if !answer {
		return nil
	}
	w := em.out
	for _, id := range w.span.Ver.Unanswered() {
		if !w.span.Owns(em.w, agui.ToolCallStart{ToolCallID: id}) && !w.journal.LeftBy(em.w.Step, em.w.Within, id) {
			continue
		}
		if err := w.failCall(it, em, id); err != nil {
			return err
		}
	}
	it.Rows = append(it.Rows, w.journal.CancelQuestions(em.w.Step, em.w.Within)...)
	return nil
}

// leave stages the events that an ended sub-agent holds, and the ends of everything that it has left open, its own end last.
// It queues them together with the memo. done may be nil.
func (em *emitter) leave(m *data.Memo, done func(error), left agui.WorkerOutput) error {
	w := em.out
	w.source.Room()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.span.Closed(em.w.Parent); err != nil {
		return err
	}
	if em.refused != nil {
		return em.refused
	}
	it := w.item()
	defer w.cfg.Commits.Add(it) // numbered events must be written, even after an error
	for _, ev := range em.takeHeld() {
		if err := w.stage(it, em, ev); err != nil {
			return err
		}
	}
	if err := em.closeOpen(it, left, true); err != nil {
		return err
	}
	it.Rows = append(it.Rows, w.takeOwed()...)
	w.record(it, m)
	if done != nil {
		it.Done = append(it.Done, done)
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
