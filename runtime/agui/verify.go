package agui

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Verifier checks that a run's events are in AG-UI's legal order, span by span: one RUN_STARTED, then entities that open and
// close, then one terminal event. It refuses every event on which a client of either dialect would fail. The zero value is
// ready for a run's first event; one that begins with a later span learns with Owe of outstanding results. A Verifier is not
// safe for concurrent use.
type Verifier struct {
	phase  phase
	text   *stream         // the open text message
	spans  []stream        // open reasoning spans, oldest first
	reason []stream        // open reasoning messages, oldest first
	models []stream        // open calls of models, oldest first
	scopes []scope         // open sub-agents and steps, outermost first
	closed map[string]bool // sub-agents that have ended
	calls  map[string]*call
	// Calls that are open or have no result, in the order they became known.
	pending []*call
	past    map[string]string // call id → owner, of calls that came with messages and not as a stream
	named   int               // bytes of the names of all that was opened

	messages   map[string]string // message id → the sub-agent that owns it, "" for the run's own agent
	reasoning  map[string]string
	activities map[string]string
}

type phase uint8

const (
	fresh  phase = iota // nothing yet
	inside              // between RUN_STARTED and the terminal event
	ended               // after the terminal event
)

// stream is an open message, span of reasoning or tool call.
type stream struct {
	id    string
	agent string
	tag   string // the sub-agent its opener named
	owner string // its sub-agent; another event's if the opener named none
}

// scope is an open sub-agent, or an open step when step is set.
type scope struct {
	stream        // a sub-agent has its subagentRunId as id and its parent as owner
	step   string // the step's name
	name   string // the sub-agent's name
}

// call is a tool call of this run, or one of Owe.
type call struct {
	stream
	open     bool
	answered bool
}

// Add checks the next event. It refuses an illegal one with an error and is then unchanged.
func (v *Verifier) Add(ev Event) error { return v.AddStored(ev, nil) }

// AddStored is Add for an event with its stored form, which saves encoding the event to check that its members are JSON. A nil
// stored is encoded.
func (v *Verifier) AddStored(ev Event, stored []byte) error {
	if err := v.add(ev, stored); err != nil {
		return fmt.Errorf("%s: %w", ev.Type(), err)
	}
	return nil
}

func (v *Verifier) add(ev Event, stored []byte) error {
	b := ev.Common()
	if err := b.check(); err != nil {
		return err
	}
	if holdsJSON(ev) {
		if stored == nil {
			stored = ev.AppendJSON(nil, Stored)
		}
		if !json.Valid(stored) {
			return errors.New("a member is not valid JSON")
		}
	}
	if err := v.inPhase(ev.Type()); err != nil {
		return err
	}
	switch e := ev.(type) {
	case TextMessageContent:
		if v.text == nil || v.text.id != e.MessageID {
			return fmt.Errorf("text message %q is not open", e.MessageID)
		}
		return v.fragment(e.Delta, b, v.text.owner)
	case ToolCallArgs:
		c, err := v.openCall(e.ToolCallID)
		if err != nil {
			return err
		}
		return v.fragment(e.Delta, b, c.owner)
	case ReasoningMessageContent:
		s, err := find(v.reason, e.MessageID, "reasoning message")
		if err != nil {
			return err
		}
		return v.fragment(e.Delta, b, s.owner)
	case SubagentStarted:
		return v.startSubagent(e)
	case SubagentFinished:
		if t := memberOf(e.Outcome, "type"); e.Outcome != nil && t != "success" && t != "suspended" {
			return fmt.Errorf("unknown outcome %q", t)
		}
		return v.finishSubagent(b)
	case SubagentError:
		return v.finishSubagent(b)
	}
	if err := v.attributed(b); err != nil {
		return err
	}
	switch e := ev.(type) {
	case RunStarted:
		return v.startRun(e)
	case RunFinished:
		return v.finishRun(e)
	case RunError:
		v.endRun()
		return nil
	case TextMessageStart:
		return v.startText(e)
	case TextMessageEnd:
		return v.endText(e)
	case ToolCallStart:
		return v.startCall(e)
	case ToolCallEnd:
		return v.endCall(e)
	case ToolCallResult:
		return v.answer(e)
	case StepStarted:
		return v.startStep(e)
	case StepFinished:
		return v.finishStep(e)
	case ReasoningStart:
		return v.startReasoning(&v.spans, e.MessageID, b, "reasoning span")
	case ReasoningMessageStart:
		return v.startReasoning(&v.reason, e.MessageID, b, "reasoning message")
	case ReasoningMessageEnd:
		return v.endReasoning(&v.reason, e.MessageID, b, "reasoning message")
	case ReasoningEnd:
		return v.endReasoning(&v.spans, e.MessageID, b, "reasoning span")
	}
	return v.addOther(ev, b)
}

// inPhase refuses an event that the current phase does not allow.
func (v *Verifier) inPhase(t Type) error {
	switch {
	case v.phase == inside && t == TypeRunStarted:
		return errors.New("the run's span has started already")
	case v.phase == inside, t == TypeRunStarted:
		return nil
	case v.phase == fresh && t == TypeRunError:
		return nil
	case v.phase == fresh:
		return errors.New("the first event must be RUN_STARTED")
	}
	return errors.New("the run's span has ended")
}

// attributed refuses an event of a sub-agent that is not open.
func (v *Verifier) attributed(b Base) error {
	if b.SubagentRunID == "" || v.subagent(b.SubagentRunID) != nil {
		return nil
	}
	return fmt.Errorf("sub-agent %q is not open", b.SubagentRunID)
}

// fragment checks a delta of something that is open and belongs to owner.
func (v *Verifier) fragment(delta string, b Base, owner string) error {
	if delta == "" {
		return errors.New("delta is empty")
	}
	return continues(b, owner)
}

// continues refuses an event that names another owner than the entity it continues. It may name none.
func continues(b Base, owner string) error {
	if b.SubagentRunID == "" || b.SubagentRunID == owner {
		return nil
	}
	if owner == "" {
		return fmt.Errorf("sub-agent %q continues what belongs to the run's own agent", b.SubagentRunID)
	}
	return fmt.Errorf("sub-agent %q continues what belongs to sub-agent %q", b.SubagentRunID, owner)
}

// claim returns the owner of the entity of that id: its recorded owner, or b's sub-agent for a new one.
func claim(owners map[string]string, id string, b Base) (owner string, err error) {
	owner, known := owners[id]
	if !known {
		return b.SubagentRunID, nil
	}
	return owner, continues(b, owner)
}

func (v *Verifier) startRun(e RunStarted) error {
	v.phase = inside
	v.closed = map[string]bool{}
	if v.messages == nil {
		v.messages = map[string]string{}
		v.reasoning = map[string]string{}
		v.activities = map[string]string{}
		v.past = map[string]string{}
	}
	if e.Input != nil {
		v.own(e.Input.Messages, false)
	}
	return nil
}

// own records the owners of messages that were not streamed, and of their calls. A snapshot also changes the owners of known
// ones.
func (v *Verifier) own(list []Message, snapshot bool) {
	set := func(owners map[string]string, id, owner string) {
		if _, known := owners[id]; snapshot || !known {
			owners[id] = owner
		}
	}
	for i := range list {
		m := &list[i]
		switch m.Role {
		case RoleReasoning:
			set(v.reasoning, m.ID, m.SubagentRunID)
		case RoleActivity:
			set(v.activities, m.ID, m.SubagentRunID)
		default:
			set(v.messages, m.ID, m.SubagentRunID)
		}
		for _, tc := range m.ToolCalls {
			c := v.calls[tc.ID]
			switch {
			case c == nil:
				set(v.past, tc.ID, m.SubagentRunID)
			case snapshot:
				c.owner = m.SubagentRunID
			}
		}
	}
	if v.text != nil {
		v.text.owner = v.messages[v.text.id]
	}
	for _, open := range [][]stream{v.spans, v.reason} {
		for i := range open {
			open[i].owner = v.reasoning[open[i].id]
		}
	}
}

func (v *Verifier) finishRun(e RunFinished) error {
	if err := v.checkClosed(""); err != nil {
		return err
	}
	if e.Metadata != nil && !isFinishMetadata(e.Metadata) {
		return errors.New("metadata must have the members of FinishMetadata and no others")
	}
	switch e.Outcome.Type {
	case OutcomeNone, OutcomeSuccess, OutcomeCancelled:
		if len(e.Outcome.Interrupts) > 0 {
			return fmt.Errorf("outcome %q has interrupts", e.Outcome.Type)
		}
	case OutcomeInterrupt:
		if len(e.Outcome.Interrupts) == 0 {
			return errors.New("outcome interrupt has no interrupts")
		}
		for _, in := range e.Outcome.Interrupts {
			if in.ID == "" || in.Reason == "" {
				return errors.New("an interrupt needs an id and a reason")
			}
		}
	default:
		return fmt.Errorf("unknown outcome %q", e.Outcome.Type)
	}
	v.endRun()
	return nil
}

// endRun forgets the open entities. Owners and results stay known, as clients with the thread's history check the next span
// against them.
func (v *Verifier) endRun() {
	v.phase = ended
	v.text, v.spans, v.reason, v.models, v.scopes, v.closed = nil, nil, nil, nil, nil, nil
	v.pending = slices.DeleteFunc(v.pending, func(c *call) bool {
		c.open = false
		return c.answered
	})
}
