package exec

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/journal"
	"github.com/batonrun/baton/runtime/plan"
	"github.com/batonrun/baton/runtime/prompts"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/runtime/span"
)

// writer writes all that a run does, in one order: the events of its span, its records, and the progress of its nodes.
type writer struct {
	cfg    *Config
	source *commit.Source // shut with the gate

	mu      sync.Mutex   // guards the fields below
	run     *data.Run    // as claimed, but for Attempt and Usage
	turn    sync.Cond    // the open text message has ended, or the gate is shut
	spare   *commit.Item // for the next queued item, nil for a new one
	span    *span.Span
	journal *journal.Journal
	nodes   *plan.Plan
	became  data.Status     // the status after end; "" before, or when another owner has the run
	prompts *prompts.Writer // nil if prompts are not kept
	owed    []data.Row      // rows of held events; written with the next item of any step
	closed  *commit.Item    // the end of a single agent's execution, which is written with the end of the run
	mark    string          // the owner that the release of the run is to leave behind; "" for none
	asked   bool            // it has asked a question, or waits for a client's tool
	spoke   bool            // a worker has emitted a visible event since the claim, or an earlier process had claimed the run

	interruptions int // of its workers and tools since its last record

	began  time.Time        // just before the run was claimed, by this process's clock
	naps   map[int]*nap     // by step
	took   map[string]int64 // by name: the last signal that a worker of this process has received
	parked *commit.Item     // that parks the run, with mark; nil for a run that another server takes over at once
	waits  *data.Waits      // of the parked run

	working  int  // Dos with a running function, or a result that is not stored yet
	atRecord bool // a worker waits at a record until the run is released
	released int  // how often the run was released since its last record
}

// open prepares the writer of a run, but for its span and nodes.
func (w *writer) open(cfg *Config, run *data.Run, broken func(error)) {
	w.cfg, w.run, w.journal, w.released, w.turn.L = cfg, run, journal.New(), run.Releases(), &w.mu
	w.naps, w.took, w.began = make(map[int]*nap), make(map[string]int64), time.Now()
	w.source = cfg.Commits.Source(w.owner(), broken)
	if !cfg.NoPrompts {
		w.prompts = prompts.New(run)
	}
}

func (w *writer) owner() quota.Owner { return quota.OwnerOf(w.run.Project, w.run.User) }

func (w *writer) item() *commit.Item {
	return &commit.Item{Source: w.source, Thread: w.span.Thread.Key}
}

// queue stages the step's held events and evs, and queues them with rows in one item, so that a crash keeps all or none. It
// waits for its turn when an event opens a text message. done may be nil. w.mu is held.
func (w *writer) queue(em *emitter, rows []data.Row, done func(error), evs ...agui.Event) error {
	if slices.ContainsFunc(evs, opensText) {
		if err := w.queue(em, nil, nil); err != nil { // other steps may wait for the held events
			return err
		}
		w.awaitTurn(em)
	}
	if err := w.span.Closed(em.w); err != nil {
		return err
	}
	if err := em.refused; err != nil {
		em.refused = nil
		return err
	}
	if em.held != nil {
		evs = append(em.takeHeld(), evs...)
		rows = append(em.dos.Shown(), rows...)
	}
	if len(evs)+len(rows) == 0 && done == nil {
		return nil
	}
	it := w.spare
	if it == nil {
		it = w.item()
	}
	it.Rows = append(it.Rows, w.takeOwed()...)
	w.spare = nil
	defer func() {
		if w.cfg.Commits.Add(it) { // numbered events are written, even before an event that is refused
			it.Empty()
			w.spare = it
		}
	}()
	for _, ev := range evs {
		if err := w.stage(it, em, ev); err != nil {
			return err
		}
	}
	for _, row := range rows {
		w.record(it, row)
	}
	if done != nil {
		it.Done = append(it.Done, done)
	}
	if !w.spoke && slices.ContainsFunc(evs, shows) {
		w.spoke = true
		it.Done = append(it.Done, func(err error) {
			if first := w.cfg.Measures.FirstEvent; err == nil && first != nil {
				first(max(time.Since(w.run.QueuedAt), 0))
			}
		})
	}
	return nil
}

// shows reports whether people see output of the worker in ev: its words, or that it calls a tool. A message that begins has no words yet.
func shows(ev agui.Event) bool {
	switch ev.(type) {
	case agui.TextMessageContent, agui.ReasoningMessageContent, agui.ToolCallStart:
		return true
	}
	return false
}

func opensText(ev agui.Event) bool { return ev.Type() == agui.TypeTextMessageStart }

// awaitTurn waits until the step may open a text message, or may emit no more.
func (w *writer) awaitTurn(em *emitter) {
	for w.span.Closed(em.w) == nil {
		if w.span.MayOpenText(em.w) {
			return
		}
		w.turn.Wait()
	}
}

// failCall stages the interrupted result of a call that gets no other, and completes its record. w.mu is held.
func (w *writer) failCall(it *commit.Item, em *emitter, id string) error {
	result := w.failedCall(id, span.CodeInterrupted)
	if err := w.stage(it, em, result); err != nil {
		return err
	}
	if row := w.journal.Complete(id, &result, w.span.Last()); row != nil {
		it.Rows = append(it.Rows, row)
	}
	return nil
}

// stage stages an event of a step, with the rows that follow from it, or an event of the run if em is nil.
func (w *writer) stage(it *commit.Item, em *emitter, ev agui.Event) error {
	if em == nil {
		return w.span.Stage(it, ev)
	}
	left := false
	if e, ok := ev.(agui.ToolCallResult); ok {
		left = w.journal.LeftBy(em.w.Step, em.w.Within, e.ToolCallID)
	}
	from := len(it.Rows)
	ev, err := w.span.Emit(it, em.w, ev, left)
	if err != nil {
		return err
	}
	for _, row := range it.Rows[from:] {
		if m, ok := row.(*data.Message); ok {
			w.prompts.Learn(m)
		}
	}
	for _, c := range em.asking {
		c.Show(ev)
	}
	switch e := ev.(type) {
	case agui.TextMessageEnd:
		w.turn.Broadcast()
	case agui.ToolCallResult:
		if left {
			it.Rows = append(it.Rows, w.journal.Complete(e.ToolCallID, &e, w.span.Last()))
		}
	case agui.Custom:
		if e.Name == agui.ProgressEvent {
			if row := w.nodes.Progress(em.node, e.Value); row != nil {
				it.Rows = append(it.Rows, row)
			}
		}
	}
	return nil
}

// takeOwed removes and returns the rows of held events. w.mu is held.
func (w *writer) takeOwed() []data.Row {
	owed := w.owed
	w.owed = nil
	return owed
}

// put queues rows without events.
func (w *writer) put(rows ...data.Row) {
	it := w.item()
	it.Rows = rows
	w.cfg.Commits.Add(it)
}

// shut lets no event of a worker follow. It reports false when it was called before. w.mu is held.
func (w *writer) shut(cause error) bool {
	if !w.span.Shut(cause) {
		return false
	}
	w.source.Shut()
	w.turn.Broadcast()
	return true
}

// record adds a row of a worker's record or question to an item. Crashes and releases are counted from the last record. w.mu is held.
func (w *writer) record(it *commit.Item, row data.Row) {
	m, ok := row.(*data.Memo)
	if ok {
		m.Event = w.span.Last()
	} else if _, asks := row.(*data.Interrupt); asks {
		w.asked = true
	}
	it.Rows = append(it.Rows, w.journal.Add(row))
	if ok && m.Done {
		w.released = 0
		w.progressed(it)
	}
}

// progressed resets the run's count of crashes. w.mu is held.
func (w *writer) progressed(it *commit.Item) {
	w.interruptions = 0
	if w.run.Attempt > 0 {
		w.run.Attempt = 0
		it.Rows = append(it.Rows, &data.RunCrashes{Key: w.run.Key})
	}
}

// speaks reports whether a message is open. w.mu is held.
func (w *writer) speaks() bool {
	return slices.ContainsFunc(w.span.Ver.Closers(), func(ev agui.Event) bool { return !isOuter(ev) })
}

// calling reports whether a call of a tool has begun, or has no record by which it could go on. w.mu is held.
func (w *writer) calling() bool {
	return slices.ContainsFunc(w.span.Ver.Unanswered(), func(id string) bool {
		m := w.journal.Call(id)
		return m == nil || m.Begun
	})
}

// failedCall returns the result of a call that gets no other. If the call has begun with arguments that a person has edited, the result
// has them: the call may have had its effect. w.mu is held if the run is live.
func (w *writer) failedCall(id, code string) agui.ToolCallResult {
	result := span.FailedCall(id, w.span.Tool(id), code)
	result.Output.ToolCallArgs = span.Args(w.journal.Edited(id))
	return result
}

// stageClosers stages the events that must precede the terminal event of an ending: ends of messages, results of calls except
// those that a waiting run has recorded, retractions, and ends of sub-agents and steps. w.mu is held.
func (w *writer) stageClosers(it *commit.Item, e Ending) error {
	output := e.left()
	if output.Error != nil && w.nodes.Broken() {
		output = agui.WorkerOutput{Status: agui.StatusPartialSuccess} // the open entities belong to nodes that were only stopped
	}
	closers := w.span.Ver.Closers()
	outer := slices.IndexFunc(closers, isOuter)
	if outer < 0 {
		outer = len(closers)
	}
	for _, ev := range closers[:outer] {
		if end, ok := ev.(agui.TextMessageEnd); ok {
			out := output
			out.Answer = w.span.Fold.Text(end.MessageID)
			end.Output = &out
			ev = end
		}
		if err := w.span.Stage(it, ev); err != nil {
			return err
		}
	}
	for _, id := range w.span.Ver.Unanswered() {
		if e.status == data.Waiting && w.journal.Call(id) != nil {
			continue
		}
		if err := w.span.Stage(it, w.failedCall(id, e.code())); err != nil {
			return err
		}
	}
	if e.status != data.Waiting {
		if err := w.span.RetractCut(it); err != nil {
			return err
		}
	}
	return w.span.Stage(it, closers[outer:]...)
}

// completed returns the ending of a run with all nodes at rest: it waits when one of them does.
func (w *writer) completed() Ending {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nodes.Has(data.Waiting) {
		return Ending{status: data.Waiting, cause: plugins.ErrEnded}
	}
	out := w.nodes.Output()
	return Ending{status: data.Completed, cause: plugins.ErrEnded, answer: graph.Answer(out), result: graph.Result(out)}
}

// enter stages the beginning of the node's next execution. w.mu is held.
func (w *writer) enter(it *commit.Item, n *graph.Node, query string) (*data.Step, error) {
	st := w.nodes.Begin(n, w.run, query)
	it.Rows = append(it.Rows, w.nodes.Rows(st)...)
	if err := w.span.Stage(it, agui.StepStarted{Base: agui.Base{Agent: n.Worker()}, StepName: st.Name}); err != nil {
		return nil, err
	}
	w.nodes.Enter(st)
	return st, nil
}

// kept returns the value that a call in a step has stored, or nil.
func (w *writer) kept(step int, call plugins.Use) json.RawMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.journal.Kept(step, call)
}

// message returns a message as the log shows it, and its seq, 0 for none. w.mu is held.
func (w *writer) message(id string) (agui.Message, int64) {
	m, ok := w.span.Fold.Message(id)
	if !ok {
		return m, 0
	}
	for i := range m.ToolCalls {
		m.ToolCalls[i].Arguments = w.span.Fold.Arguments(m.ToolCalls[i].ID)
	}
	return m, w.span.Messages.SeqOf(id)
}

// learn notes messages of the thread, to which prompts can refer.
func (w *writer) learn(rows []data.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range rows {
		w.prompts.Learn(&rows[i])
	}
}
