package agui

// AppendJSON implements Event.
func (e RunStarted) AppendJSON(dst []byte, p Projection) []byte {
	b := e.ofRun(p)
	dst = b.open(dst, TypeRunStarted, p)
	dst = b.names(dst, p)
	switch p {
	case Stored, Seed:
		dst = appendOptStr(dst, "protocolVersion", e.ProtocolVersion)
	case AGUI1:
		dst = appendStr(dst, "protocolVersion", ProtocolVersion)
	}
	dst = appendOptStr(dst, "parentRunId", e.ParentRunID)
	if p == Stored || p == Seed || p == Public {
		dst = appendOptStr(dst, "agentId", e.AgentID)
	}
	if e.Input != nil {
		dst = e.Input.append(appendKey(dst, "input"), p)
	}
	if p != AGUI1 && p != AGUI0 {
		return b.close(dst, p)
	}
	dst, mark := openMetadata(dst, b.Metadata)
	if e.AgentID != "" && lacks(b.Metadata, "agentId") {
		dst = appendStr(dst, "agentId", e.AgentID)
	}
	return b.end(closeMetadata(dst, mark), p)
}

// AppendJSON implements Event.
func (e RunFinished) AppendJSON(dst []byte, p Projection) []byte {
	b := e.ofRun(p)
	dst = b.open(dst, TypeRunFinished, p)
	dst = b.names(dst, p)
	dst = appendOptRaw(dst, "result", e.Result)
	if e.Outcome.Type != OutcomeNone {
		dst = e.Outcome.append(appendKey(dst, "outcome"), p)
	}
	dst = appendUsage(dst, e.Usage, p)
	return b.close(dst, p)
}

// AppendJSON implements Event.
func (e RunError) AppendJSON(dst []byte, p Projection) []byte {
	b := e.ofRun(p)
	dst = b.open(dst, TypeRunError, p)
	dst = appendStr(dst, "message", e.Message)
	dst = appendOptStr(dst, "code", e.Code)
	dst = appendUsage(dst, e.Usage, p)
	return b.close(dst, p)
}

// AppendJSON implements Event.
func (e StepStarted) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeStepStarted, p)
	dst = appendStr(dst, "stepName", e.StepName)
	return e.close(dst, p)
}

// AppendJSON implements Event.
func (e StepFinished) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeStepFinished, p)
	dst = appendStr(dst, "stepName", e.StepName)
	return e.close(dst, p)
}

// AppendJSON implements Event.
func (e ReasoningStart) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeReasoningStart, p)
	dst = appendStr(dst, "messageId", e.MessageID)
	return e.close(dst, p)
}

// AppendJSON implements Event.
func (e ReasoningMessageStart) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeReasoningMessageStart, p)
	dst = appendStr(dst, "messageId", e.MessageID)
	dst = appendStr(dst, "role", string(RoleReasoning))
	return e.close(dst, p)
}

// AppendJSON implements Event.
func (e ReasoningMessageContent) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeReasoningMessageContent, p)
	dst = appendStr(dst, "messageId", e.MessageID)
	dst = appendStr(dst, "delta", e.Delta)
	return e.close(dst, p)
}

// AppendJSON implements Event.
func (e ReasoningMessageEnd) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeReasoningMessageEnd, p)
	dst = appendStr(dst, "messageId", e.MessageID)
	return e.close(dst, p)
}

// AppendJSON implements Event.
func (e ReasoningEnd) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeReasoningEnd, p)
	dst = appendStr(dst, "messageId", e.MessageID)
	return e.close(dst, p)
}

// AppendJSON implements Event.
func (e ReasoningEncryptedValue) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeReasoningEncryptedValue, p)
	dst = appendStr(dst, "subtype", e.Subtype)
	dst = appendStr(dst, "entityId", e.EntityID)
	dst = appendStr(dst, "encryptedValue", e.EncryptedValue)
	return e.close(dst, p)
}

// AppendJSON implements Event.
func (e SubagentStarted) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeSubagentStarted, p)
	dst = appendStr(dst, "name", e.Name)
	dst = appendOptStr(dst, "description", e.Description)
	dst = appendOptStr(dst, "parentSubagentRunId", e.ParentSubagentRunID)
	dst = appendOptStr(dst, "parentToolCallId", e.ParentToolCallID)
	dst = appendOptStr(dst, "parentMessageId", e.ParentMessageID)
	return e.close(dst, p)
}

// AppendJSON implements Event.
func (e SubagentFinished) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeSubagentFinished, p)
	dst = appendOptRaw(dst, "result", e.Result)
	dst = appendOptRaw(dst, "outcome", e.Outcome)
	return e.close(dst, p)
}

// AppendJSON implements Event.
func (e SubagentError) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, TypeSubagentError, p)
	dst = appendStr(dst, "message", e.Message)
	dst = appendOptStr(dst, "code", e.Code)
	return e.close(dst, p)
}

// AppendJSON implements Event.
func (e Unknown) AppendJSON(dst []byte, p Projection) []byte {
	dst = e.open(dst, e.Name, p)
	dst = appendMembersBut(dst, e.Body, isCommon)
	return e.close(dst, p)
}
