package agui

func (e *RunStarted) set(name string, val []byte) (bool, error) {
	switch name {
	case "agentId":
		return true, setString(&e.AgentID, name, val)
	case "protocolVersion":
		return true, setString(&e.ProtocolVersion, name, val)
	case "parentRunId":
		return true, setString(&e.ParentRunID, name, val)
	case "input":
		return true, setStruct(&e.Input, name, val)
	}
	return false, nil
}

func (e *RunFinished) set(name string, val []byte) (bool, error) {
	switch name {
	case "result":
		return true, setOpt(&e.Result, name, val)
	case "outcome":
		e.Outcome = Outcome{}
		if isNull(val) {
			return true, nil
		}
		return true, within(name, decodeStruct(&e.Outcome, val))
	case "usage":
		return true, setList(&e.Usage, name, val)
	}
	return false, nil
}

func (e *RunError) set(name string, val []byte) (bool, error) {
	switch name {
	case "message":
		return true, setString(&e.Message, name, val)
	case "code":
		return true, setString(&e.Code, name, val)
	case "usage":
		return true, setList(&e.Usage, name, val)
	}
	return false, nil
}

func (e *StepStarted) set(name string, val []byte) (bool, error) {
	if name == "stepName" {
		return true, setString(&e.StepName, name, val)
	}
	return false, nil
}

func (e *StepFinished) set(name string, val []byte) (bool, error) {
	if name == "stepName" {
		return true, setString(&e.StepName, name, val)
	}
	return false, nil
}

func (e *ReasoningStart) set(name string, val []byte) (bool, error) {
	if name == "messageId" {
		return true, setString(&e.MessageID, name, val)
	}
	return false, nil
}

func (e *ReasoningMessageStart) set(name string, val []byte) (bool, error) {
	switch name {
	case "messageId":
		return true, setString(&e.MessageID, name, val)
	case "role": // always reasoning
		return true, nil
	}
	return false, nil
}

func (e *ReasoningMessageContent) set(name string, val []byte) (bool, error) {
	switch name {
	case "messageId":
		return true, setString(&e.MessageID, name, val)
	case "delta":
		return true, setString(&e.Delta, name, val)
	}
	return false, nil
}

func (e *ReasoningMessageEnd) set(name string, val []byte) (bool, error) {
	if name == "messageId" {
		return true, setString(&e.MessageID, name, val)
	}
	return false, nil
}

func (e *ReasoningEnd) set(name string, val []byte) (bool, error) {
	if name == "messageId" {
		return true, setString(&e.MessageID, name, val)
	}
	return false, nil
}

func (e *ReasoningEncryptedValue) set(name string, val []byte) (bool, error) {
	switch name {
	case "subtype":
		return true, setString(&e.Subtype, name, val)
	case "entityId":
		return true, setString(&e.EntityID, name, val)
	case "encryptedValue":
		return true, setString(&e.EncryptedValue, name, val)
	}
	return false, nil
}

func (e *SubagentStarted) set(name string, val []byte) (bool, error) {
	switch name {
	case "name":
		return true, setString(&e.Name, name, val)
	case "description":
		return true, setString(&e.Description, name, val)
	case "parentSubagentRunId":
		return true, setString(&e.ParentSubagentRunID, name, val)
	case "parentToolCallId":
		return true, setString(&e.ParentToolCallID, name, val)
	case "parentMessageId":
		return true, setString(&e.ParentMessageID, name, val)
	}
	return false, nil
}

func (e *SubagentFinished) set(name string, val []byte) (bool, error) {
	switch name {
	case "result":
		return true, setOpt(&e.Result, name, val)
	case "outcome":
		return true, setObject(&e.Outcome, name, val)
	}
	return false, nil
}

func (e *SubagentError) set(name string, val []byte) (bool, error) {
	switch name {
	case "message":
		return true, setString(&e.Message, name, val)
	case "code":
		return true, setString(&e.Code, name, val)
	}
	return false, nil
}
