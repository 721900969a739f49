package agui

// publicCustom are the names of CUSTOM events that the schema of the log in pages admits.
var publicCustom = map[string]bool{
	"message-metadata": true,
	"source-url":       true,
	"source-document":  true,
	"file":             true,
	"tool-call-status": true,
	"stream-heartbeat": true,
}

// public reports whether the output schema of get_agent_run_events admits ev.
func public(ev Event) bool {
	switch e := ev.(type) {
	case RunStarted, RunFinished, RunError, MessagesSnapshot:
		return true
	case TextMessageStart:
		return e.MessageID != ""
	case TextMessageContent:
		return e.MessageID != ""
	case TextMessageEnd:
		return e.MessageID != ""
	case ReasoningMessageStart:
		return e.MessageID != ""
	case ReasoningMessageContent:
		return e.MessageID != ""
	case ReasoningMessageEnd:
		return e.MessageID != ""
	case ToolCallStart:
		return e.ToolCallID != "" && e.ToolCallName != ""
	case ToolCallArgs:
		return e.ToolCallID != ""
	case ToolCallEnd:
		return e.ToolCallID != ""
	case ToolCallResult:
		return e.ToolCallID != "" && e.MessageID != ""
	case StateSnapshot:
		return len(e.Snapshot) > 0 && e.Snapshot[0] == '{'
	case StateDelta:
		return checkPatch(e.Delta, false) == nil
	case Custom:
		return publicCustom[e.Name]
	}
	return false
}

// publicMessage converts m to the schema of the log in pages, and reports whether that is possible.
func publicMessage(m *Message) bool {
	if m.ID == "" {
		return false
	}
	switch m.Role {
	case RoleUser, RoleReasoning:
		return true
	case RoleTool:
		return m.ToolCallID != ""
	case RoleAssistant:
		var calls []ToolCall
		for _, c := range m.ToolCalls {
			if c.ID != "" && c.Name != "" {
				calls = append(calls, c)
			}
		}
		m.ToolCalls = calls
		return true
	}
	return false
}
