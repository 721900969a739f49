package agui

import "encoding/json"

// ProtocolVersion is the version of AG-UI that the AGUI1 projection speaks.
const ProtocolVersion = "1.0"

// strict reports whether p writes AG-UI's members only.
func (p Projection) strict() bool { return p >= AGUI1 }

// legacy reports whether p is of dialect 0.0.
func (p Projection) legacy() bool { return p != Stored && p != AGUI1 }

// open appends the start of an event: its type and, unless p is strict, its owner.
func (b *Base) open(dst []byte, t Type, p Projection) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, t...)
	dst = append(dst, '"')
	switch {
	case p == Seed && b.ThreadID != "": // an event of a log, also of one that has no run any more
		return appendStr(appendStr(appendStr(dst, "threadId", b.ThreadID), "runId", b.RunID), "agent", b.Agent)
	case !p.strict():
		return appendOptStr(dst, "agent", b.Agent)
	}
	return dst
}

// names appends threadId and runId where AG-UI requires them.
func (b *Base) names(dst []byte, p Projection) []byte {
	switch p {
	case AGUI1, AGUI0:
		return appendStr(appendStr(dst, "threadId", b.ThreadID), "runId", b.RunID)
	case Public:
		return appendOptStr(appendOptStr(dst, "threadId", b.ThreadID), "runId", b.RunID)
	}
	return dst
}

// close appends the common members and ends the event.
func (b *Base) close(dst []byte, p Projection) []byte {
	return b.end(appendOptRaw(dst, "metadata", b.Metadata), p)
}

// end is close for an event that has written its metadata.
func (b *Base) end(dst []byte, p Projection) []byte {
	if !p.legacy() {
		dst = appendOptStr(dst, "subagentRunId", b.SubagentRunID)
	}
	dst = appendOptInt(dst, "timestamp", b.Timestamp)
	dst = appendOptRaw(dst, "rawEvent", b.RawEvent)
	if !p.strict() {
		dst = appendMembers(dst, b.Extra)
	}
	return append(dst, '}')
}

// ofRun is b for an event that AG-UI attributes to no sub-agent.
func (b Base) ofRun(p Projection) Base {
	if p.strict() {
		b.SubagentRunID = ""
	}
	return b
}

// openMetadata begins a metadata member with the event's own metadata. closeMetadata ends it, or removes it if it is
// empty.
func openMetadata(dst []byte, own json.RawMessage) (out []byte, mark int) {
	mark = len(dst)
	dst = append(appendKey(dst, "metadata"), '{')
	return appendMembers(dst, own), mark
}

func closeMetadata(dst []byte, mark int) []byte {
	if dst[len(dst)-1] == '{' {
		return dst[:mark]
	}
	return append(dst, '}')
}

// lacks reports whether own has no member of that name, so that a seed member may take it.
func lacks(own json.RawMessage, name string) bool {
	return len(own) == 0 || lookup(own, name) == nil
}

// AppendJSON implements Event.
func (e TextMessageStart) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeTextMessageStart, p)
	dst = appendStr(dst, "messageId", e.MessageID)
	if p == Stored {
		dst = appendOptStr(dst, "role", string(e.Role))
	} else {
		dst = appendStr(dst, "role", or(string(e.Role), string(RoleAssistant)))
	}
	dst = appendOptStr(dst, "name", e.Name)
	if !p.strict() {
		return e.close(appendOptStr(dst, "stage", e.Stage), p)
	}
	dst, mark := openMetadata(dst, e.Metadata)
	if e.Agent != "" && lacks(e.Metadata, "agent") {
		dst = appendStr(dst, "agent", e.Agent)
	}
	if e.Stage != "" && lacks(e.Metadata, "stage") {
		dst = appendStr(dst, "stage", e.Stage)
	}
	return e.end(closeMetadata(dst, mark), p)
}

// AppendJSON implements Event.
func (e TextMessageContent) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeTextMessageContent, p)
	dst = appendStr(dst, "messageId", e.MessageID)
	dst = appendStr(dst, "delta", e.Delta)
	return e.close(dst, p)
}

// AppendJSON implements Event.
func (e TextMessageEnd) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeTextMessageEnd, p)
	dst = appendStr(dst, "messageId", e.MessageID)
	out := e.Output
	switch p {
	case Stored, Seed:
		if out == nil && p == Seed {
			out = &WorkerOutput{}
		}
		if out != nil {
			dst = out.append(appendKey(dst, "workerAgentOutput"), true)
		}
		return e.close(dst, p)
	}
	dst, mark := openMetadata(dst, e.Metadata)
	if out != nil && out.says() && lacks(e.Metadata, "workerAgentOutput") {
		dst = out.append(appendKey(dst, "workerAgentOutput"), false)
	}
	return e.end(closeMetadata(dst, mark), p)
}

// AppendJSON implements Event.
func (e ToolCallStart) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeToolCallStart, p)
	dst = appendStr(dst, "toolCallId", e.ToolCallID)
	dst = appendStr(dst, "toolCallName", e.ToolCallName)
	dst = appendOptStr(dst, "parentMessageId", e.ParentMessageID)
	if !p.strict() {
		return e.close(dst, p)
	}
	dst, mark := openMetadata(dst, e.Metadata)
	if e.Agent != "" && lacks(e.Metadata, "agent") {
		dst = appendStr(dst, "agent", e.Agent)
	}
	return e.end(closeMetadata(dst, mark), p)
}

// AppendJSON implements Event.
func (e ToolCallArgs) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeToolCallArgs, p)
	dst = appendStr(dst, "toolCallId", e.ToolCallID)
	dst = appendStr(dst, "delta", e.Delta)
	return e.close(dst, p)
}

// AppendJSON implements Event.
func (e ToolCallEnd) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeToolCallEnd, p)
	dst = appendStr(dst, "toolCallId", e.ToolCallID)
	return e.close(dst, p)
}

// AppendJSON implements Event.
func (e ToolCallResult) AppendJSON(dst []byte, p Projection) []byte {
	if p == Stored {
		return e.AppendStored(dst, nil)
	}
	dst = e.begin(dst, p)
	out := e.Output
	switch p {
	case Seed:
		if out == nil {
			out = &ToolOutput{ToolCallID: e.ToolCallID, ResultSummary: e.Content}
		}
		dst = out.append(appendKey(dst, "toolAgentOutput"), true)
		return e.close(dst, p)
	case Public:
		if out != nil && out.Status == StatusFailure {
			dst = appendBool(dst, "isError", true)
		}
	}
	dst, mark := openMetadata(dst, e.Metadata)
	if out != nil && lacks(e.Metadata, "toolAgentOutput") {
		dst = out.append(appendKey(dst, "toolAgentOutput"), false)
	}
	return e.end(closeMetadata(dst, mark), p)
}

// AppendStored is AppendJSON for the log. output is e.Output as JSON if it is already encoded, on one line and without its parts;
// otherwise nil.
func (e ToolCallResult) AppendStored(dst, output []byte) []byte {
	dst = appendOptRaw(e.begin(dst, Stored), "parts", e.Parts)
	switch {
	case output != nil:
		dst = append(appendKey(dst, "toolAgentOutput"), output...)
	case e.Output != nil:
		dst = e.Output.append(appendKey(dst, "toolAgentOutput"), true)
	}
	return e.close(dst, Stored)
}

// begin appends the members before the output.
func (e ToolCallResult) begin(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeToolCallResult, p)
	dst = appendStr(dst, "messageId", e.MessageID)
	dst = appendStr(dst, "toolCallId", e.ToolCallID)
	dst = appendStr(dst, "role", string(RoleTool))
	if p == AGUI1 && e.Parts != nil {
		return appendRaw(dst, "content", e.Parts, "[]")
	}
	return appendStr(dst, "content", e.Content)
}

// AppendJSON implements Event.
func (e StateSnapshot) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeStateSnapshot, p)
	dst = appendRaw(dst, "snapshot", e.Snapshot, "null")
	return e.close(dst, p)
}

// AppendJSON implements Event.
func (e StateDelta) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeStateDelta, p)
	dst = appendRaw(dst, "delta", e.Delta, "[]")
	return e.close(dst, p)
}

// AppendJSON implements Event.
func (e MessagesSnapshot) AppendJSON(dst []byte, p Projection) []byte {
	b := e.ofRun(p)
	dst = b.open(dst, TypeMessagesSnapshot, p)
	dst = appendMessages(appendKey(dst, "messages"), e.Messages, p)
	return b.close(dst, p)
}

// AppendJSON implements Event.
func (e ActivitySnapshot) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeActivitySnapshot, p)
	dst = appendStr(dst, "messageId", e.MessageID)
	dst = appendStr(dst, "activityType", e.ActivityType)
	dst = appendRaw(dst, "content", e.Content, "{}")
	if e.Replace != nil {
		dst = appendBool(dst, "replace", *e.Replace)
	}
	return e.close(dst, p)
}

// AppendJSON implements Event.
func (e ActivityDelta) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeActivityDelta, p)
	dst = appendStr(dst, "messageId", e.MessageID)
	dst = appendStr(dst, "activityType", e.ActivityType)
	dst = appendRaw(dst, "patch", e.Patch, "[]")
	return e.close(dst, p)
}

// AppendJSON implements Event.
func (e Raw) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeRaw, p)
	dst = appendRaw(dst, "event", e.Event, "null")
	dst = appendOptStr(dst, "source", e.Source)
	return e.close(dst, p)
}

// AppendJSON implements Event.
func (e Custom) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeCustom, p)
	dst = appendStr(dst, "name", e.Name)
	dst = appendRaw(dst, "value", e.Value, "null")
	return e.close(dst, p)
}
