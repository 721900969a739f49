package agui

// Type implements Event.
func (TextMessageStart) Type() Type { return TypeTextMessageStart }

// WithCommon implements Event.
func (e TextMessageStart) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (TextMessageContent) Type() Type { return TypeTextMessageContent }

// WithCommon implements Event.
func (e TextMessageContent) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (TextMessageEnd) Type() Type { return TypeTextMessageEnd }

// WithCommon implements Event.
func (e TextMessageEnd) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (ToolCallStart) Type() Type { return TypeToolCallStart }

// WithCommon implements Event.
func (e ToolCallStart) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (ToolCallArgs) Type() Type { return TypeToolCallArgs }

// WithCommon implements Event.
func (e ToolCallArgs) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (ToolCallEnd) Type() Type { return TypeToolCallEnd }

// WithCommon implements Event.
func (e ToolCallEnd) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (ToolCallResult) Type() Type { return TypeToolCallResult }

// WithCommon implements Event.
func (e ToolCallResult) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (StateSnapshot) Type() Type { return TypeStateSnapshot }

// WithCommon implements Event.
func (e StateSnapshot) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (StateDelta) Type() Type { return TypeStateDelta }

// WithCommon implements Event.
func (e StateDelta) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (MessagesSnapshot) Type() Type { return TypeMessagesSnapshot }

// WithCommon implements Event.
func (e MessagesSnapshot) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (ActivitySnapshot) Type() Type { return TypeActivitySnapshot }

// WithCommon implements Event.
func (e ActivitySnapshot) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (ActivityDelta) Type() Type { return TypeActivityDelta }

// WithCommon implements Event.
func (e ActivityDelta) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (Raw) Type() Type { return TypeRaw }

// WithCommon implements Event.
func (e Raw) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (Custom) Type() Type { return TypeCustom }

// WithCommon implements Event.
func (e Custom) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (RunStarted) Type() Type { return TypeRunStarted }

// WithCommon implements Event.
func (e RunStarted) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (RunFinished) Type() Type { return TypeRunFinished }

// WithCommon implements Event.
func (e RunFinished) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (RunError) Type() Type { return TypeRunError }

// WithCommon implements Event.
func (e RunError) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (StepStarted) Type() Type { return TypeStepStarted }

// WithCommon implements Event.
func (e StepStarted) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (StepFinished) Type() Type { return TypeStepFinished }

// WithCommon implements Event.
func (e StepFinished) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (ReasoningStart) Type() Type { return TypeReasoningStart }

// WithCommon implements Event.
func (e ReasoningStart) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (ReasoningMessageStart) Type() Type { return TypeReasoningMessageStart }

// WithCommon implements Event.
func (e ReasoningMessageStart) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (ReasoningMessageContent) Type() Type { return TypeReasoningMessageContent }

// WithCommon implements Event.
func (e ReasoningMessageContent) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (ReasoningMessageEnd) Type() Type { return TypeReasoningMessageEnd }

// WithCommon implements Event.
func (e ReasoningMessageEnd) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (ReasoningEnd) Type() Type { return TypeReasoningEnd }

// WithCommon implements Event.
func (e ReasoningEnd) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (ReasoningEncryptedValue) Type() Type { return TypeReasoningEncryptedValue }

// WithCommon implements Event.
func (e ReasoningEncryptedValue) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (SubagentStarted) Type() Type { return TypeSubagentStarted }

// WithCommon implements Event.
func (e SubagentStarted) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (SubagentFinished) Type() Type { return TypeSubagentFinished }

// WithCommon implements Event.
func (e SubagentFinished) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (SubagentError) Type() Type { return TypeSubagentError }

// WithCommon implements Event.
func (e SubagentError) WithCommon(b Base) Event { e.Base = b; return e }

// Type implements Event.
func (e Unknown) Type() Type { return e.Name }

// WithCommon implements Event.
func (e Unknown) WithCommon(b Base) Event { e.Base = b; return e }

// knownTypes are the types that have a struct of their own.
var knownTypes = map[Type]bool{
	TypeTextMessageStart:        true,
	TypeTextMessageContent:      true,
	TypeTextMessageEnd:          true,
	TypeToolCallStart:           true,
	TypeToolCallArgs:            true,
	TypeToolCallEnd:             true,
	TypeToolCallResult:          true,
	TypeStateSnapshot:           true,
	TypeStateDelta:              true,
	TypeMessagesSnapshot:        true,
	TypeActivitySnapshot:        true,
	TypeActivityDelta:           true,
	TypeRaw:                     true,
	TypeCustom:                  true,
	TypeRunStarted:              true,
	TypeRunFinished:             true,
	TypeRunError:                true,
	TypeStepStarted:             true,
	TypeStepFinished:            true,
	TypeReasoningStart:          true,
	TypeReasoningMessageStart:   true,
	TypeReasoningMessageContent: true,
	TypeReasoningMessageEnd:     true,
	TypeReasoningEnd:            true,
	TypeReasoningEncryptedValue: true,
	TypeSubagentStarted:         true,
	TypeSubagentFinished:        true,
	TypeSubagentError:           true,
}
