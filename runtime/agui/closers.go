package agui

// Started reports whether a span is open: RUN_STARTED has come and the terminal event has not.
func (v *Verifier) Started() bool { return v.phase == inside }

// OpenText returns the text message that is open, if one is.
func (v *Verifier) OpenText() (messageID string, ok bool) {
	if v.text == nil {
		return "", false
	}
	return v.text.id, true
}

// SubagentOpen reports whether the sub-agent of that id is open.
func (v *Verifier) SubagentOpen(id string) bool { return v.subagent(id) != nil }

// Owe declares calls of an earlier span that have no result yet.
func (v *Verifier) Owe(toolCallIDs ...string) {
	for _, id := range toolCallIDs {
		if v.calls[id] == nil {
			v.know(&call{stream: stream{id: id}})
		}
	}
}

// Unanswered returns the calls that have no result, in the order they were made.
func (v *Verifier) Unanswered() []string {
	var ids []string
	for _, c := range v.pending {
		if !c.answered {
			ids = append(ids, c.id)
		}
	}
	return ids
}

// Closers returns the events that close everything open, in a legal order: texts, reasoning, calls of tools and models, and then
// sub-agents and steps from the innermost out. It does not change v. A TextMessageEnd has no Output and a sub-agent ends as
// finished: the caller fills in how they ended, and adds the results of Unanswered calls.
func (v *Verifier) Closers() []Event {
	var list []Event
	if s := v.text; s != nil {
		list = append(list, TextMessageEnd{Base: s.base(), MessageID: s.id})
	}
	for _, s := range v.reason {
		list = append(list, ReasoningMessageEnd{Base: s.base(), MessageID: s.id})
	}
	for _, s := range v.spans {
		list = append(list, ReasoningEnd{Base: s.base(), MessageID: s.id})
	}
	for _, c := range v.pending {
		if c.open {
			list = append(list, ToolCallEnd{Base: c.base(), ToolCallID: c.id})
		}
	}
	for _, s := range v.models {
		end := ModelCall{ID: s.id, Status: ModelInterrupted}.Event()
		end.Base = s.base()
		list = append(list, end)
	}
	for i := len(v.scopes) - 1; i >= 0; i-- {
		s := &v.scopes[i]
		if s.step != "" {
			list = append(list, StepFinished{Base: s.base(), StepName: s.step})
			continue
		}
		list = append(list, SubagentFinished{Base: Base{
			Agent:         s.agent,
			SubagentRunID: s.id,
			Metadata:      append(appendStr([]byte{'{'}, "name", s.name), '}'),
		}})
	}
	return list
}

// base returns the common members of an event that continues s. It names the sub-agent of the opener unless a snapshot has
// moved s to another.
func (s *stream) base() Base {
	b := Base{Agent: s.agent, SubagentRunID: s.tag}
	if s.tag != s.owner {
		b.SubagentRunID = ""
	}
	return b
}
