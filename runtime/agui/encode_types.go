package agui

// MarshalJSON returns o in the form of TEXT_MESSAGE_END.
func (o WorkerOutput) MarshalJSON() ([]byte, error) { return o.append(nil, true), nil }

// MarshalJSON returns o in the form of TOOL_CALL_RESULT.
func (o ToolOutput) MarshalJSON() ([]byte, error) {
	room := len(o.ToolCallArgs) + len(o.ResultSummary) + len(o.UIHints) + len(o.Parts) + 256
	dst := o.append(make([]byte, 0, room), true)
	return append(appendOptRaw(dst[:len(dst)-1], "parts", o.Parts), '}'), nil
}

// append appends o as JSON, with or without its answer.
func (o *WorkerOutput) append(dst []byte, answer bool) []byte {
	dst = append(dst, '{')
	dst = appendStr(dst, "status", or(o.Status, StatusSuccess))
	if answer {
		dst = appendStr(dst, "answer", o.Answer)
	}
	dst = appendStrings(dst, "key_points", o.KeyPoints)
	dst = appendOptStr(dst, "result_type", o.ResultType)
	dst = appendStrings(dst, "suggested_actions", o.SuggestedActions)
	dst = o.Error.append(dst)
	dst = appendOptRaw(dst, "ui_hints", o.UIHints)
	dst = appendOptRaw(dst, "result", o.Result)
	return append(dst, '}')
}

// says reports whether o has more than an answer and success.
func (o *WorkerOutput) says() bool {
	return or(o.Status, StatusSuccess) != StatusSuccess || len(o.KeyPoints) > 0 || o.ResultType != "" ||
		len(o.SuggestedActions) > 0 || o.Error != nil || !isNull(o.UIHints) || !isNull(o.Result)
}

// append appends o as JSON, with or without its result summary.
func (o *ToolOutput) append(dst []byte, summary bool) []byte {
	dst = append(dst, '{')
	dst = appendStr(dst, "tool_name", o.ToolName)
	dst = appendStr(dst, "tool_call_id", o.ToolCallID)
	dst = appendOptRaw(dst, "tool_call_args", o.ToolCallArgs)
	dst = appendStr(dst, "status", or(o.Status, StatusSuccess))
	if summary {
		dst = appendStr(dst, "result_summary", o.ResultSummary)
	}
	dst = appendOptRaw(dst, "ui_hints", o.UIHints)
	dst = o.Error.append(dst)
	return append(dst, '}')
}

// append appends the member "error" unless e is nil.
func (e *OutputError) append(dst []byte) []byte {
	if e == nil {
		return dst
	}
	dst = append(appendKey(dst, "error"), '{')
	dst = appendStr(dst, "code", e.Code)
	dst = appendStr(dst, "message", e.Message)
	if e.Retryable {
		dst = appendBool(dst, "retryable", true)
	}
	dst = appendOptRaw(dst, "details", e.Details)
	return append(dst, '}')
}

func (o *Outcome) append(dst []byte, p Projection) []byte {
	dst = append(dst, '{')
	dst = appendStr(dst, "type", string(o.Type))
	if len(o.Interrupts) > 0 {
		dst = append(appendKey(dst, "interrupts"), '[')
		for i := range o.Interrupts {
			dst = o.Interrupts[i].append(appendComma(dst), p)
		}
		dst = append(dst, ']')
	}
	dst = appendStrings(dst, "pendingToolCallIds", o.PendingToolCallIDs)
	return append(dst, '}')
}

func (in *Interrupt) append(dst []byte, p Projection) []byte {
	dst = append(dst, '{')
	dst = appendStr(dst, "id", in.ID)
	dst = appendStr(dst, "reason", in.Reason)
	dst = appendOptStr(dst, "message", in.Message)
	dst = appendOptStr(dst, "toolCallId", in.ToolCallID)
	dst = appendOptRaw(dst, "responseSchema", in.ResponseSchema)
	dst = appendOptStr(dst, "expiresAt", in.ExpiresAt)
	dst = appendOptRaw(dst, "metadata", in.Metadata)
	if !p.legacy() {
		dst = appendOptStr(dst, "subagentRunId", in.SubagentRunID)
	}
	return append(dst, '}')
}

// appendUsage appends the member "usage" unless list is empty.
func appendUsage(dst []byte, list []TokenUsage, p Projection) []byte {
	if len(list) == 0 {
		return dst
	}
	dst = append(appendKey(dst, "usage"), '[')
	for i := range list {
		u := &list[i]
		dst = append(appendComma(dst), '{')
		dst = appendOptStr(dst, "provider", u.Provider)
		dst = appendOptStr(dst, "model", u.Model)
		dst = appendOptInt(dst, "inputTokens", u.InputTokens)
		dst = appendOptInt(dst, "outputTokens", u.OutputTokens)
		dst = appendOptInt(dst, "totalTokens", u.TotalTokens)
		dst = appendOptInt(dst, "reasoningTokens", u.ReasoningTokens)
		dst = appendOptInt(dst, "cachedInputTokens", u.CachedInputTokens)
		if !p.legacy() || p == Seed {
			dst = appendOptInt(dst, "cacheWriteInputTokens", u.CacheWriteInputTokens)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func (in *RunAgentInput) append(dst []byte, p Projection) []byte {
	dst = append(dst, '{')
	dst = appendStr(dst, "threadId", in.ThreadID)
	dst = appendStr(dst, "runId", in.RunID)
	if !p.legacy() {
		dst = appendOptStr(dst, "protocolVersion", in.ProtocolVersion)
	}
	dst = appendOptStr(dst, "parentRunId", in.ParentRunID)
	dst = appendOptRaw(dst, "state", in.State)
	if dst = appendKey(dst, "messages"); p == Stored && len(in.Encoded) > 0 {
		dst = appendEncoded(dst, in.Encoded)
	} else {
		dst = appendMessages(dst, in.Messages, p)
	}
	dst = append(appendKey(dst, "tools"), '[')
	for i := range in.Tools {
		dst = in.Tools[i].append(appendComma(dst))
	}
	dst = append(dst, ']')
	dst = append(appendKey(dst, "context"), '[')
	for i := range in.Context {
		dst = append(appendComma(dst), '{')
		dst = appendStr(dst, "description", in.Context[i].Description)
		dst = appendStr(dst, "value", in.Context[i].Value)
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	if p == Stored {
		dst = appendOptRaw(dst, "forwardedProps", in.ForwardedProps)
	} else {
		dst = appendRaw(dst, "forwardedProps", in.ForwardedProps, "{}") // AG-UI's Python SDK refuses an input without
	}
	if len(in.Resume) > 0 {
		dst = append(appendKey(dst, "resume"), '[')
		for i := range in.Resume {
			dst = in.Resume[i].append(appendComma(dst))
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func (t *Tool) append(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendStr(dst, "name", t.Name)
	dst = appendStr(dst, "description", t.Description)
	dst = appendOptRaw(dst, "parameters", t.Parameters)
	dst = appendOptRaw(dst, "metadata", t.Metadata)
	return append(dst, '}')
}

func (r *ResumeEntry) append(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendStr(dst, "interruptId", r.InterruptID)
	dst = appendStr(dst, "status", r.Status)
	dst = appendOptRaw(dst, "payload", r.Payload)
	dst = appendOptRaw(dst, "metadata", r.Metadata)
	return append(dst, '}')
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
