package agui

func (e *TextMessageStart) set(name string, val []byte) (bool, error) {
	switch name {
	case "messageId":
		return true, setString(&e.MessageID, name, val)
	case "role":
		return true, setString(&e.Role, name, val)
	case "name":
		return true, setString(&e.Name, name, val)
	case "stage":
		return true, setString(&e.Stage, name, val)
	}
	return false, nil
}

func (e *TextMessageContent) set(name string, val []byte) (bool, error) {
	switch name {
	case "messageId":
		return true, setString(&e.MessageID, name, val)
	case "delta":
		return true, setString(&e.Delta, name, val)
	}
	return false, nil
}

func (e *TextMessageEnd) set(name string, val []byte) (bool, error) {
	switch name {
	case "messageId":
		return true, setString(&e.MessageID, name, val)
	case "workerAgentOutput":
		return true, setStruct(&e.Output, name, val)
	case "stage", "model": // never on this event
		return true, nil
	}
	return false, nil
}

func (e *ToolCallStart) set(name string, val []byte) (bool, error) {
	switch name {
	case "toolCallId":
		return true, setString(&e.ToolCallID, name, val)
	case "toolCallName":
		return true, setString(&e.ToolCallName, name, val)
	case "parentMessageId":
		return true, setString(&e.ParentMessageID, name, val)
	}
	return false, nil
}

func (e *ToolCallArgs) set(name string, val []byte) (bool, error) {
	switch name {
	case "toolCallId":
		return true, setString(&e.ToolCallID, name, val)
	case "delta":
		return true, setString(&e.Delta, name, val)
	}
	return false, nil
}

func (e *ToolCallEnd) set(name string, val []byte) (bool, error) {
	if name == "toolCallId" {
		return true, setString(&e.ToolCallID, name, val)
	}
	return false, nil
}

func (e *ToolCallResult) set(name string, val []byte) (bool, error) {
	switch name {
	case "messageId":
		return true, setString(&e.MessageID, name, val)
	case "toolCallId":
		return true, setString(&e.ToolCallID, name, val)
	case "role": // always tool
		return true, nil
	case "content":
		if len(val) == 0 || val[0] != '[' {
			return true, setString(&e.Content, name, val)
		}
		parts, err := decodeParts(val)
		e.Parts, e.Content = parts, partsText(parts)
		return true, within(name, err)
	case "parts": // beside content in the stored form
		return true, setArray(&e.Parts, name, val)
	case "toolAgentOutput":
		return true, setStruct(&e.Output, name, val)
	}
	return false, nil
}

func (e *StateSnapshot) set(name string, val []byte) (bool, error) {
	if name == "snapshot" {
		return true, setAny(&e.Snapshot, name, val)
	}
	return false, nil
}

func (e *StateSnapshot) lacks() string { return lacking(e.Snapshot == nil, "snapshot") }

func (e *StateDelta) set(name string, val []byte) (bool, error) {
	if name == "delta" {
		return true, setArray(&e.Delta, name, val)
	}
	return false, nil
}

func (e *StateDelta) lacks() string { return lacking(e.Delta == nil, "delta") }

func (e *MessagesSnapshot) set(name string, val []byte) (bool, error) {
	if name == "messages" {
		return true, setList(&e.Messages, name, val)
	}
	return false, nil
}

func (e *ActivitySnapshot) set(name string, val []byte) (bool, error) {
	switch name {
	case "messageId":
		return true, setString(&e.MessageID, name, val)
	case "activityType":
		return true, setString(&e.ActivityType, name, val)
	case "content":
		return true, setObject(&e.Content, name, val)
	case "replace":
		return true, setBool(&e.Replace, name, val)
	}
	return false, nil
}

func (e *ActivitySnapshot) lacks() string { return lacking(e.Content == nil, "content") }

func (e *ActivityDelta) set(name string, val []byte) (bool, error) {
	switch name {
	case "messageId":
		return true, setString(&e.MessageID, name, val)
	case "activityType":
		return true, setString(&e.ActivityType, name, val)
	case "patch":
		return true, setArray(&e.Patch, name, val)
	}
	return false, nil
}

func (e *ActivityDelta) lacks() string { return lacking(e.Patch == nil, "patch") }

func (e *Raw) set(name string, val []byte) (bool, error) {
	switch name {
	case "event":
		return true, setAny(&e.Event, name, val)
	case "source":
		return true, setString(&e.Source, name, val)
	}
	return false, nil
}

func (e *Raw) lacks() string { return lacking(e.Event == nil, "event") }

func (e *Custom) set(name string, val []byte) (bool, error) {
	switch name {
	case "name":
		return true, setString(&e.Name, name, val)
	case "value":
		return true, setAny(&e.Value, name, val)
	}
	return false, nil
}

func (e *Custom) lacks() string { return lacking(e.Value == nil, "value") }

func lacking(missing bool, name string) string {
	if missing {
		return name
	}
	return ""
}
