package fold

import "github.com/batonrun/baton/runtime/agui"

// startCall adds a call to the assistant message that it names. If there is no such message, a new one gets that id, or
// the call's id if another role has it. A known call only gets a new name.
func (f *Fold) startCall(e agui.ToolCallStart) {
	metadata := agui.MergeMetadata(object("agent", e.Agent), e.Metadata)
	c := f.list.calls[e.ToolCallID]
	if c == nil {
		c = f.addCall(f.caller(e), e)
	}
	tc := c.call()
	f.list.rewrite(c.owner, &tc.Name, e.ToolCallName)
	f.list.annotate(c.owner, &tc.Metadata, metadata)
	f.list.changing(c.owner, c.start)
	e.Base, e.ParentMessageID = opener(e.Base), c.owner.ID
	f.opens(e)
}

// caller returns the assistant message for e's call, which may be new.
func (f *Fold) caller(e agui.ToolCallStart) *message {
	id := e.ParentMessageID
	if id == "" {
		id = e.ToolCallID
	} else if m := f.list.byID[id]; m != nil {
		if m.Role == agui.RoleAssistant {
			return m
		}
		id = e.ToolCallID
	}
	return f.list.add(agui.Message{ID: id, Role: agui.RoleAssistant, SubagentRunID: e.SubagentRunID})
}

func (f *Fold) addCall(m *message, e agui.ToolCallStart) *call {
	c := &call{owner: m, i: len(m.ToolCalls)}
	m.ToolCalls = append(m.ToolCalls, agui.ToolCall{ID: e.ToolCallID})
	f.list.count(m, each+len(e.ToolCallID))
	f.list.calls[e.ToolCallID] = c
	return c
}

// call returns the message's tool call.
func (c *call) call() *agui.ToolCall { return &c.owner.ToolCalls[c.i] }

// start opens c and moves its arguments out of the message.
func (c *call) start() {
	if c.open {
		return
	}
	c.open = true
	c.owner.openCalls++
	c.args, c.call().Arguments = []byte(c.call().Arguments), ""
}

// end closes c and moves its arguments into the message.
func (c *call) end() {
	if !c.open {
		return
	}
	c.open = false
	c.owner.openCalls--
	c.args, c.call().Arguments = nil, string(c.args)
}

func (f *Fold) arguments(e agui.ToolCallArgs) {
	c := f.list.calls[e.ToolCallID]
	if c == nil {
		return
	}
	f.list.count(c.owner, len(e.Delta))
	if c.open {
		c.args = append(c.args, e.Delta...)
	} else {
		c.call().Arguments += e.Delta
	}
	if e.Metadata != nil {
		f.list.annotate(c.owner, &c.call().Metadata, e.Metadata)
	}
}

// Arguments returns a call's arguments so far, "" if there is no such call.
func (f *Fold) Arguments(call string) string {
	switch c := f.list.calls[call]; {
	case c == nil:
		return ""
	case c.open:
		return string(c.args)
	default:
		return c.call().Arguments
	}
}

func (f *Fold) endCall(e agui.ToolCallEnd) []string {
	f.close(e)
	c := f.list.calls[e.ToolCallID]
	if c == nil {
		return nil
	}
	f.list.changing(c.owner, c.end)
	f.list.annotate(c.owner, &c.call().Metadata, e.Metadata)
	return c.owner.changed()
}

// encrypted sets the encrypted value of a call or message.
func (f *Fold) encrypted(e agui.ReasoningEncryptedValue) []string {
	if e.Subtype == "tool-call" {
		c := f.list.calls[e.EntityID]
		if c == nil || c.owner.Role != agui.RoleAssistant {
			return nil
		}
		f.list.rewrite(c.owner, &c.call().EncryptedValue, e.EncryptedValue)
		return c.owner.changed()
	}
	m := f.list.byID[e.EntityID]
	if m == nil || m.Role == agui.RoleActivity {
		return nil
	}
	f.list.rewrite(m, &m.EncryptedValue, e.EncryptedValue)
	return m.changed()
}
