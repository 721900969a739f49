package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
)

// folded is the content of a log, computed from the protocol alone.
type folded struct {
	state json.RawMessage
	msgs  []*agui.Message
	calls map[string]*agui.Message // message of each call
	began map[string]int           // begin of each message
	count int                      // number of begun messages
	told  map[string]bool          // messages that only a snapshot in the log has
}

func newFolded() *folded {
	return &folded{state: json.RawMessage("{}"), calls: make(map[string]*agui.Message), began: make(map[string]int), told: make(map[string]bool)}
}

func (f *folded) find(id string) *agui.Message {
	for _, m := range f.msgs {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// begin returns the message with m's id, adding m if there is none.
func (f *folded) begin(m agui.Message) *agui.Message {
	if old := f.find(m.ID); old != nil {
		return old
	}
	f.keep(&m)
	return &m
}

func (f *folded) keep(m *agui.Message) {
	f.msgs = append(f.msgs, m)
	if _, again := f.began[m.ID]; !again {
		f.count++
		f.began[m.ID] = f.count
	}
}

// add folds an event. Id 0 is a frame made for its reader.
func (f *folded) add(id int64, ev agui.Event) {
	switch e := ev.(type) {
	case agui.RunStarted:
		if e.Input != nil {
			for _, m := range e.Input.Messages {
				f.begin(m)
			}
		}
	case agui.TextMessageStart:
		if f.told[e.MessageID] { // the run that used the id was deleted
			f.drop(e.MessageID)
			delete(f.told, e.MessageID)
			delete(f.began, e.MessageID)
		}
		f.begin(agui.Message{ID: e.MessageID, Role: e.Role})
	case agui.TextMessageContent:
		if m := f.find(e.MessageID); m != nil {
			m.Content += e.Delta
		}
	case agui.ReasoningMessageStart:
		f.begin(agui.Message{ID: e.MessageID, Role: agui.RoleReasoning})
	case agui.ToolCallStart:
		f.call(e)
	case agui.ToolCallArgs:
		if m := f.calls[e.ToolCallID]; m != nil {
			i := slices.IndexFunc(m.ToolCalls, func(c agui.ToolCall) bool { return c.ID == e.ToolCallID })
			m.ToolCalls[i].Arguments += e.Delta
		}
	case agui.ToolCallResult:
		f.begin(agui.Message{ID: e.MessageID, Role: agui.RoleTool, ToolCallID: e.ToolCallID, Content: e.Content})
	case agui.Custom:
		for _, id := range agui.RetractedBy(e) {
			if m := f.find(id); m != nil {
				f.drop(id)
			}
		}
	case agui.StateSnapshot:
		f.state = e.Snapshot
	case agui.StateDelta:
		f.patch(e.Delta)
	case agui.MessagesSnapshot:
		f.replace(e.Messages, id == 0)
	}
}

func (f *folded) call(e agui.ToolCallStart) {
	var owner *agui.Message
	if e.ParentMessageID != "" {
		owner = f.find(e.ParentMessageID)
	}
	if owner == nil || owner.Role != agui.RoleAssistant {
		id := e.ToolCallID
		if e.ParentMessageID != "" && owner == nil {
			id = e.ParentMessageID
		}
		owner = f.begin(agui.Message{ID: id, Role: agui.RoleAssistant})
	}
	owner.ToolCalls = append(owner.ToolCalls, agui.ToolCall{ID: e.ToolCallID, Name: e.ToolCallName})
	f.calls[e.ToolCallID] = owner
}

func (f *folded) drop(id string) {
	f.msgs = slices.DeleteFunc(f.msgs, func(m *agui.Message) bool { return m.ID == id })
}

func (f *folded) replace(list []agui.Message, now bool) {
	f.msgs = nil
	for i := range list {
		m := list[i]
		if _, begun := f.began[m.ID]; !begun {
			f.told[m.ID] = !now
		}
		f.keep(&m)
		for _, c := range m.ToolCalls {
			f.calls[c.ID] = &m
		}
	}
}

// patch applies an RFC 6902 patch of a merge of flat objects.
func (f *folded) patch(delta json.RawMessage) {
	var ops []struct {
		Op, Path string
		Value    json.RawMessage
	}
	state := make(map[string]json.RawMessage)
	if json.Unmarshal(delta, &ops) != nil || json.Unmarshal(f.state, &state) != nil || state == nil {
		f.state = json.RawMessage(fmt.Sprintf("%q", "the patch "+string(delta)+" does not apply"))
		return
	}
	for _, op := range ops {
		name := strings.TrimPrefix(op.Path, "/")
		if op.Op == "remove" {
			delete(state, name)
		} else {
			state[name] = op.Value
		}
	}
	f.state = mustJSON(state)
}

// lines returns the messages for comparison with rows, in the order of their begins.
func (f *folded) lines() []string {
	list := []string{}
	sorted := slices.SortedFunc(slices.Values(f.msgs), func(a, b *agui.Message) int { return f.began[a.ID] - f.began[b.ID] })
	for _, m := range sorted {
		if m.Role != agui.RoleReasoning && !f.told[m.ID] { // deleted runs may have written those
			list = append(list, line(m))
		}
	}
	return list
}
