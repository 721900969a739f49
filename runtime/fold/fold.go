// Package fold computes what a thread's log amounts to: its messages, its state and what is still open,
// as AG-UI's own clients compute them. It knows nothing of runs or databases.
package fold

import (
	"encoding/json"
	"fmt"

	"github.com/batonrun/baton/runtime/agui"
)

// Fold is what a thread's log amounts to, up to the event applied last. It keeps to the reducers of
// @ag-ui/client 1.0.0 fed with the AGUI1 projection, and keeps the seed members whole: a text message's
// metadata holds its agent, stage and workerAgentOutput, a tool message's its toolAgentOutput.
//
// A Fold is not safe for concurrent use.
type Fold struct {
	state json.RawMessage
	first *message // the messages in order, each with its next
	end   *message
	n     int                 // how many there are
	byID  map[string]*message // the first message of each id
	calls map[string]*call    // the first call of each id
	open  []agui.Event        // the openers of what is open, oldest first
	last  *message            // the message of the latest fragment
	grown int                 // bytes of the messages and of what is open
	part  int                 // of them, those of messages that are not complete
}

// message is a message and, while its text is open, the text so far.
type message struct {
	agui.Message
	next      *message
	results   *message // the last result of its calls that stands behind it
	text      []byte
	streaming bool // text goes on; Content is stale
	openCalls int
	counts    int // bytes of it that the Fold has grown by, below 0 when it has lost some that do not count
}

// call is a tool call that a message carries and, while it is open, its arguments so far.
type call struct {
	owner *message
	i     int // its index in owner.ToolCalls
	args  []byte
	open  bool
}

// New returns a Fold that goes on from a known state and messages that are complete. With nil and nil
// it is an empty thread. It keeps both and changes neither.
func New(state json.RawMessage, messages []agui.Message) *Fold {
	if len(state) == 0 || string(state) == "null" {
		state = json.RawMessage("{}")
	}
	f := &Fold{state: state}
	f.replace(messages, func(m *agui.Message) bool { return m.Role != agui.RoleUser })
	return f
}

// Apply folds ev in. It returns the ids of the messages that ev completed, changed after they were
// complete, or removed: those that Message does not know any more. It fails when ev cannot apply, a patch
// that does not fit for instance, and f is then unchanged. Fragments of messages that are not there are
// skipped, as clients do.
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

// Grown is how many bytes, about, the messages have in memory for as long as the Fold is, and what is open. What a run is asked
// is not among them, as users have written it; what is added to that is.
func (f *Fold) Grown() int { return f.grown }

// count notes that m has n bytes more than it had, or fewer.
func (f *Fold) count(m *message, n int) {
	f.changing(m, func() {
		f.grown += max(m.counts+n, 0) - max(m.counts, 0)
		m.counts += n
	})
}

// changing does what may complete m, open it again or make it larger.
func (f *Fold) changing(m *message, change func()) {
	f.part -= m.part()
	change()
	f.part += m.part()
}

// part is how many bytes m has of those that the Fold has grown by, 0 once it is complete.
func (m *message) part() int {
	if m.complete() {
		return 0
	}
	return max(m.counts, 0)
}

// each is what a message, a call or an opener has in memory beside what is written in it.
const each = 1 << 10

// annotate merges more into the metadata of m or of one of its calls.
func (f *Fold) annotate(m *message, metadata *json.RawMessage, more json.RawMessage) {
	merged := agui.MergeMetadata(*metadata, more)
	f.count(m, len(merged)-len(*metadata))
	*metadata = merged
}

// rewrite makes text what m or one of its calls has in a member.
func (f *Fold) rewrite(m *message, member *string, text string) {
	f.count(m, len(text)-len(*member))
	*member = text
}

// State returns the thread's state, {} at first. The caller must not change it.
func (f *Fold) State() json.RawMessage { return f.state }

// Role returns the role of the message of that id, "" where there is none.
func (f *Fold) Role(id string) agui.Role {
	if m := f.byID[id]; m != nil {
		return m.Role
	}
	return ""
}

// Caller returns the id of the message that made a call, "" where there is no such call.
func (f *Fold) Caller(call string) string {
	if c := f.calls[call]; c != nil {
		return c.owner.ID
	}
	return ""
}

// Message returns the message of that id as it is now; of an open tool call it has no arguments yet.
func (f *Fold) Message(id string) (agui.Message, bool) {
	m := f.byID[id]
	if m == nil {
		return agui.Message{}, false
	}
	return m.view(), true
}

// Text returns the text so far of the message of that id.
func (f *Fold) Text(id string) string {
	m := f.byID[id]
	switch {
	case m == nil:
		return ""
	case m.streaming:
		return string(m.text)
	}
	return m.Text()
}

// Messages returns the messages in order, those that are still open as they are now. The arguments of
// an open tool call are not in them but in Open, so that a client may be given both.
func (f *Fold) Messages() []agui.Message {
	list := make([]agui.Message, 0, f.n)
	for m := f.first; m != nil; m = m.next {
		list = append(list, m.view())
	}
	return list
}

// view returns a copy of m that later events do not change.
func (m *message) view() agui.Message {
	v := m.Message
	if m.streaming && m.Parts == nil {
		v.Content = string(m.text)
	}
	v.ToolCalls = append([]agui.ToolCall(nil), m.ToolCalls...)
	return v
}

// complete reports whether nothing of m is open.
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
