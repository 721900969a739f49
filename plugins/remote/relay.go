package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
)

// relay passes the events of one run of the remote to ours. It makes any input legal.
type relay struct {
	a     *Agent
	run   *plugins.Run
	again bool // after a crash: its changes can already exist

	legal   agui.Verifier
	view    *fold.Fold        // the conversation under our ids
	known   map[string]bool   // ids of the messages in it before this run
	sent    map[string]bool   // their ids at the remote
	before  map[string]*call  // calls of earlier runs by the remote's ids
	ids     map[string]string // our message ids by kind and the remote's ids
	calls   map[string]*call  // of this run
	order   []*call
	subs    map[string]string // our ids of its sub-agents
	names   map[string]string // of open sub-agents, by our ids
	steps   map[stepKey]string
	opened  map[string]bool // our names of steps
	tools   map[string]bool // names of the client's tools
	held    int             // unanswered calls of client tools
	said    said
	passed  bool            // the last emitted event was legal
	reasons map[string]bool // our ids of open reasoning messages
	chunks  shorthands
	halves  halves

	based    bool // a snapshot of the remote's state was read
	end      ending
	asked    []question
	leftOut  int
	thinking int
}

// call is a tool call of the remote.
type call struct {
	id     string // ours
	theirs string
	name   string
	parent string // the remote's id of its message
	args   bytes.Buffer

	invented bool // for a result of a call that the remote has not announced
	held     bool // not shown: a client's tool without a result so far
	complete bool // all arguments received
	answered bool
	answer   *agui.ToolOutput // a person's, for a call that was left open
}

type stepKey struct{ sub, name string }

// linger is the time without an event after which a run that has ended goes on no more, although its stream is open.
const linger = 2 * time.Second

// shorthands are the open entities that shorthand events without id continue.
type shorthands struct{ text, call, reasoning string }

func newRelay(a *Agent, run *plugins.Run, c *conversation, again bool) *relay {
	r := &relay{
		a: a, run: run, again: again,
		view: fold.New(c.state, c.messages), known: map[string]bool{},
		sent: map[string]bool{}, before: map[string]*call{}, ids: map[string]string{}, calls: map[string]*call{},
		subs: map[string]string{}, names: map[string]string{}, steps: map[stepKey]string{}, reasons: map[string]bool{}, halves: halves{},
		opened: map[string]bool{}, tools: map[string]bool{}, said: said{texts: map[[sha256.Size]byte][]string{}, callers: map[string]string{}},
	}
	for _, t := range run.Input.Tools {
		r.tools[t.Name] = true
	}
	_ = r.legal.Add(agui.RunStarted{})
	for _, m := range c.messages {
		r.known[m.ID] = true
	}
	sent, _ := theirs(c.messages, a.cfg.Name)
	for _, m := range sent {
		r.sent[m.ID] = true
		for _, tc := range m.ToolCalls {
			known := &call{theirs: tc.ID, name: tc.Name, parent: m.ID, held: true, complete: true}
			known.args.WriteString(tc.Arguments)
			r.before[tc.ID] = known
		}
		if c := r.before[m.ToolCallID]; c != nil && m.Role == agui.RoleTool {
			c.answered = true
		}
	}
	for _, l := range c.left {
		known := r.before[l.Theirs]
		if known == nil {
			continue
		}
		known.id, known.held, known.answer = l.ID, false, l.Answer
		r.calls[l.Theirs], r.order = known, append(r.order, known)
		r.legal.Owe(l.ID)
	}
	return r
}

// patience returns the maximum wait for the next byte. A tool of the remote can be at work after an end that was no question.
func (r *relay) patience(idle time.Duration) time.Duration {
	works := r.end.failure == nil && r.end.outcome.Type == "" && slices.ContainsFunc(r.order, func(c *call) bool { return !c.held && !c.answered })
	if r.end.over && !works {
		return min(idle, linger)
	}
	return idle
}

// take passes on one event. Its error means that our run accepts no more events.
func (r *relay) take(data []byte) error {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || string(data) == "[DONE]" {
		return nil
	}
	if data = r.halves.join(data, &r.chunks); data == nil {
		return nil
	}
	data = r.a.secrets.HideCredentials(data)
	ev, err := decode(data)
	if _, unknown := ev.(agui.Unknown); unknown || ev == nil {
		r.end.complaint = cmp.Or(complaintIn(data, r.a.secrets.Hide), r.end.complaint)
	}
	switch {
	case ev == nil:
		r.end.strange = true
		r.drop("unreadable", err)
		return nil
	case err != nil:
		r.drop("part of "+string(ev.Type()), err)
	}
	r.end.begun = true
	return r.event(ev)
}

// event passes on ev.
func (r *relay) event(ev agui.Event) error {
	b := r.base(ev)
	switch e := ev.(type) {
	case agui.RunStarted: // also of another run in the same stream
		r.end.final, r.end.over, r.end.failure, r.end.outcome = false, false, nil, agui.Outcome{}
		return nil
	case agui.RunFinished:
		r.end.finished(e)
		return nil
	case agui.RunError:
		if r.end.over { // the remote's work is done and must not be requested again
			r.drop(string(e.Type()), errors.New("the remote's run has ended"))
			return nil
		}
		r.end.failed(e, r.a.secrets.Hide)
		return nil
	}
	r.end.over = r.end.over && !continues(ev.Type())
	switch e := ev.(type) {
	case agui.TextMessageStart:
		return r.startText(b, e)
	case agui.TextMessageContent:
		return r.text(b, e.MessageID, e.Delta)
	case agui.TextMessageEnd:
		return r.endText(e)
	case agui.ReasoningMessageStart:
		_, err := r.startReasoning(b, e.MessageID)
		return err
	case agui.ReasoningMessageContent:
		return r.reason(b, e.MessageID, e.Delta)
	case agui.ReasoningMessageEnd:
		return r.endReasoning(e.MessageID)
	case agui.ReasoningEncryptedValue:
		return r.encrypted(e)
	case agui.ToolCallStart:
		return r.startCall(b, e)
	case agui.ToolCallArgs:
		return r.arguments(e.ToolCallID, e.Delta)
	case agui.ToolCallEnd:
		return r.endCall(e.ToolCallID)
	case agui.ToolCallResult:
		return r.result(b, e)
	case agui.StateSnapshot:
		r.based = true
		return r.snapshot(e.Snapshot)
	case agui.StateDelta:
		return r.delta(e.Delta)
	case agui.MessagesSnapshot:
		return r.messages(e.Messages)
	case agui.StepStarted:
		return r.startStep(b, e.StepName)
	case agui.StepFinished:
		return r.finishStep(b, e.StepName)
	case agui.SubagentStarted:
		return r.startSubagent(e)
	case agui.SubagentFinished:
		return r.finishSubagent(e.SubagentRunID, "", e)
	case agui.SubagentError:
		return r.finishSubagent(e.SubagentRunID, e.Message, e)
	case agui.ActivitySnapshot:
		e.Base, e.MessageID = b, r.id("activity", e.MessageID)
		return r.emit(e)
	case agui.ActivityDelta:
		e.Base, e.MessageID = b, r.id("activity", e.MessageID)
		return r.emit(e)
	case agui.Custom:
		return r.custom(b, e)
	case agui.Unknown:
		return r.unknown(b, e)
	}
	return nil // RAW, and spans of reasoning: each message has its own
}

// continues reports whether events of a type belong to work, which goes on after the end that was announced. TanStack AI, for one,
// announces an end before each of its tools' results.
func continues(typ agui.Type) bool {
	switch typ {
	case agui.TypeTextMessageStart, agui.TypeTextMessageContent, agui.TypeTextMessageChunk, agui.TypeToolCallStart, agui.TypeToolCallArgs,
		agui.TypeToolCallChunk, agui.TypeToolCallResult, agui.TypeReasoningMessageStart, agui.TypeReasoningMessageContent,
		agui.TypeReasoningMessageChunk, agui.TypeStepStarted, agui.TypeSubagentStarted:
		return true
	}
	return false
}

// base returns the members common to events that we retain: the sub-agent, if it was announced.
func (r *relay) base(ev agui.Event) agui.Base {
	sub := r.subs[ev.Common().SubagentRunID]
	if sub == "" || !r.legal.SubagentOpen(sub) {
		return agui.Base{}
	}
	return agui.Base{SubagentRunID: sub}
}

// id returns our id for an entity of the remote, by kind, because a remote can give a text and its reasoning the same id.
// It is empty, which makes events illegal, for a long id or too many ids.
func (r *relay) id(kind, theirs string) string {
	key := kind + ":" + theirs
	if id := r.ids[key]; id != "" || len(theirs) > longestID || len(r.ids) >= maxIDs {
		return id
	}
	id := newID()
	r.ids[key] = id
	return id
}

// maxIDs limits the ids in one run of the remote.
const maxIDs = 100_000

// emit adds an event to our run. Illegal events are dropped; an illegal attribution to a sub-agent is removed. A call that ends without
// arguments gets {}, because clients parse them.
func (r *relay) emit(ev agui.Event) error {
	if end, ok := ev.(agui.ToolCallEnd); ok && r.view.Arguments(end.ToolCallID) == "" {
		if err := r.emit(agui.ToolCallArgs{ToolCallID: end.ToolCallID, Delta: "{}"}); err != nil {
			return err
		}
	}
	err := r.view.Check(ev)
	if err == nil {
		err = r.legal.Add(ev)
		if b := ev.Common(); err != nil && b.SubagentRunID != "" && !ofSubagent(ev) {
			b.SubagentRunID = ""
			if plain := ev.WithCommon(b); r.legal.Add(plain) == nil {
				ev, err = plain, nil
			}
		}
	}
	if err == nil {
		_, err = r.view.Apply(ev)
	}
	if err == nil {
		err = r.run.Emit(ev)
		if refused, ok := errors.AsType[*plugins.Error](err); err != nil && (!ok || refused.Code != "illegal_event") {
			return err // our run accepts no more events
		}
	}
	if r.passed = err == nil; r.passed {
		r.said.note(ev, r.view)
		return nil
	}
	r.drop(string(ev.Type()), err)
	return nil
}

// ofSubagent reports whether an event is about the sub-agent that it names.
func ofSubagent(ev agui.Event) bool {
	switch ev.Type() {
	case agui.TypeSubagentStarted, agui.TypeSubagentFinished, agui.TypeSubagentError:
		return true
	}
	return false
}

// maxLeftOut limits the dropped events that are logged individually.
const maxLeftOut = 10

// drop logs a dropped event.
func (r *relay) drop(what string, why error) {
	if r.leftOut++; r.leftOut <= maxLeftOut {
		r.a.cfg.Log.Warn("an event of a remote agent is left out", "agent", r.a.cfg.Name, "run", r.run.Input.RunID,
			"event", clip(what, 64), "error", clip(r.a.secrets.Hide(why.Error()), 300))
	}
}

// close ends open entities, with status for an interrupted text.
func (r *relay) close(status string) error {
	for _, ev := range r.legal.Closers() {
		if end, ok := ev.(agui.TextMessageEnd); ok && status != agui.StatusSuccess {
			end.Output = &agui.WorkerOutput{Status: status, Answer: r.view.Text(end.MessageID)}
			ev = end
		}
		if err := r.emit(ev); err != nil {
			return err
		}
	}
	return nil
}

// conclude ends the remote's open entities and sets the run's outcome in res.
func (r *relay) conclude(ctx context.Context, res *result) error {
	if r.leftOut > maxLeftOut {
		r.a.cfg.Log.Warn("events of a remote agent were left out", "agent", r.a.cfg.Name, "run", r.run.Input.RunID, "events", r.leftOut)
	}
	res.Run, res.Usage, res.Failure, res.Output = r.end.run, r.end.usage, r.end.failure, r.end.output
	if r.end.outcome.Type == agui.OutcomeCancelled {
		res.Gone = r.again
		res.Failure = &agui.OutputError{Code: "remote_cancelled", Message: "The remote agent's run was cancelled there"}
	}
	if res.Failure != nil {
		return r.close(agui.StatusPartialSuccess)
	}
	var err error
	if res.Questions, err = r.questions(); err != nil {
		return err
	}
	if err := r.close(agui.StatusSuccess); err != nil {
		return err
	}
	if err := r.settleCalls(ctx, res); err != nil {
		return err
	}
	if len(res.Pending)+len(res.Questions) > 0 {
		res.State = r.view.State()
		res.Messages = slices.DeleteFunc(r.view.Messages(), func(m agui.Message) bool { return r.known[m.ID] })
	}
	return nil
}
