// Package fold computes the result of a thread's log: its messages, its state and its open spans,
// as AG-UI's own clients compute them. It knows nothing of runs or databases.
package fold

import (
	"encoding/json"
	"fmt"

	"github.com/batonrun/baton/runtime/agui"
)

// Fold is the state and messages of a thread's log up to the event applied last. It follows the reducers of
// @ag-ui/client 1.0.0 on the AGUI1 projection, and preserves the members of the seeds: a text message's metadata holds
// its agent, stage and workerAgentOutput, and a tool message's its toolAgentOutput.
//
// A Fold is not safe for concurrent use.
type Fold struct {
	state json.RawMessage
	list  list
	open  []agui.Event // openers of the open entities, oldest first
	last  *message     // the message of the latest fragment
}

// message is a message and, while its text is open, the text so far.
type message struct {
	agui.Message
	next      *message
	results   *message // the last result of its calls
	text      []byte
	streaming bool // text is open; Content is stale
	openCalls int
	counts    int // its bytes in grown; negative after dropping bytes that did not count
}

// call is a message's tool call and, while it is open, its arguments so far.
type call struct {
	owner *message
	i     int // index in owner.ToolCalls
	args  []byte
	open  bool
}

// New returns a Fold that continues from a state and complete messages, both nil for an empty thread. It keeps both and
// changes neither.
func New(state json.RawMessage, messages []agui.Message) *Fold {
	if len(state) == 0 || string(state) == "null" {
		state = json.RawMessage("{}")
	}
	f := &Fold{state: state}
	f.replace(messages, func(m *agui.Message) bool { return m.Role != agui.RoleUser })
	return f
}

// Apply applies ev. It returns the ids of messages that ev completed, changed after completion, or removed (Message no
// longer finds the latter). If ev cannot apply, for example a patch that does not fit, Apply fails and f is unchanged.
// Like clients, it ignores fragments of unknown messages.
func (f *Fold) Apply(ev agui.Event) (changed []string, err error) {
	switch e := ev.(type) {
	case agui.TextMessageContent:
		f.fragment(e.MessageID, e.Delta, e.Metadata)
	case agui.ReasoningMessageContent:
		f.fragment(e.MessageID, e.Delta, e.Metadata)
	case agui.ToolCallArgs:
		f.arguments(e)
	case agui.TextMessageStart:
		f.startText(e)
	case agui.TextMessageEnd:
		return f.endText(e), nil
	case agui.ReasoningMessageStart:
		f.startReasoning(e)
	case agui.ReasoningMessageEnd:
		return f.endMessage(ev, e.MessageID, e.Metadata), nil
	case agui.ToolCallStart:
		f.startCall(e)
	case agui.ToolCallEnd:
		return f.endCall(e), nil
	case agui.ToolCallResult:
		return f.Result(e, nil)
	case agui.ReasoningEncryptedValue:
		return f.encrypted(e), nil
	case agui.StateSnapshot:
		return nil, f.snapshot(e.Snapshot)
	case agui.StateDelta:
		next, err := patched(f.state, e.Delta)
		if err != nil {
			return nil, fmt.Errorf("state delta: %w", err)
		}
		f.state = next
	case agui.MessagesSnapshot:
		return f.replaceMessages(e), nil
	case agui.ActivitySnapshot:
		return f.activity(e), nil
	case agui.ActivityDelta:
		return f.activityDelta(e)
	case agui.RunStarted:
		return f.startRun(e), nil
	case agui.RunFinished, agui.RunError:
		return f.closeAll(), nil
	case agui.StepStarted, agui.SubagentStarted, agui.ReasoningStart:
		f.opens(ev)
	case agui.StepFinished, agui.SubagentFinished, agui.SubagentError, agui.ReasoningEnd:
		f.close(ev)
	}
	return nil, nil
}

// Grown returns the approximate memory of messages and open entities, in bytes. It does not count messages by users,
// but counts additions to them.
func (f *Fold) Grown() int { return f.list.grown }

// part returns m's bytes in Fold.part, 0 once it is complete.
func (m *message) part() int {
	if m.complete() {
		return 0
	}
	return max(m.counts, 0)
}

// each is the fixed memory of a message, call or opener, beside its contents.
const each = 1 << 10

// State returns the thread's state, initially {}. Do not change it.
func (f *Fold) State() json.RawMessage { return f.state }

// Role returns the role of a message, "" if there is none.
func (f *Fold) Role(id string) agui.Role {
	if m := f.list.byID[id]; m != nil {
		return m.Role
	}
	return ""
}

// Caller returns the id of the message with a tool call, "" if there is no such call.
func (f *Fold) Caller(call string) string {
	if c := f.list.calls[call]; c != nil {
		return c.owner.ID
	}
	return ""
}

// Message returns a message as it is now. An open tool call has no arguments yet.
func (f *Fold) Message(id string) (agui.Message, bool) {
	m := f.list.byID[id]
	if m == nil {
		return agui.Message{}, false
	}
	return m.view(), true
}

// Text returns a message's text so far.
func (f *Fold) Text(id string) string {
	m := f.list.byID[id]
	switch {
	case m == nil:
		return ""
	case m.streaming:
		return string(m.text)
	}
	return m.Text()
}

// Messages returns all messages in order, incomplete ones as they are now. Open has the arguments of open tool calls,
// so that a client can be given both.
func (f *Fold) Messages() []agui.Message {
	list := make([]agui.Message, 0, f.list.n)
	for m := f.list.first; m != nil; m = m.next {
		list = append(list, m.view())
	}
	return list
}

func (m *message) view() agui.Message {
	v := m.Message
	if m.streaming && m.Parts == nil {
		v.Content = string(m.text)
	}
	v.ToolCalls = append([]agui.ToolCall(nil), m.ToolCalls...)
	return v
}

// complete reports whether m has neither open text nor open calls.
func (m *message) complete() bool { return !m.streaming && m.openCalls == 0 }

// snapshot replaces the state.
func (f *Fold) snapshot(state json.RawMessage) error {
	next, err := compact(state)
	if err != nil {
		return fmt.Errorf("state snapshot: %w", err)
	}
	f.state = next
	return nil
}
