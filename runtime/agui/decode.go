package agui

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Decode reads one event, in the log's stored form or as an AG-UI agent sends it. Unknown members go to Base.Extra, unknown types
// become Unknown; optional members may be null, and missing strings are empty: the Verifier checks legality. A known
// member of the wrong type is an error. The event holds no reference to data.
func Decode(data []byte) (Event, error) {
	if ev, ok := decodeHot(data, "", ""); ok {
		return ev, nil
	}
	if !json.Valid(data) {
		return nil, errors.New("event is not valid JSON")
	}
	var typ Type
	if err := setString(&typ, "type", lookup(data, "type")); err != nil {
		return nil, err
	}
	ev, err := decodeType(typ, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", or(string(typ), "event"), err)
	}
	return ev, nil
}

// DecodeStored reads an event of the log of a thread and a run, which its stored form does not name.
func DecodeStored(data []byte, threadID, runID string) (Event, error) {
	if ev, ok := decodeHot(data, threadID, runID); ok {
		return ev, nil
	}
	ev, err := Decode(data)
	if err != nil {
		return nil, err
	}
	b := ev.Common()
	b.ThreadID, b.RunID = threadID, runID
	return ev.WithCommon(b), nil
}

func decodeType(typ Type, data []byte) (Event, error) {
	switch typ {
	case TypeTextMessageStart:
		return decodeAs[TextMessageStart](data)
	case TypeTextMessageContent:
		return decodeAs[TextMessageContent](data)
	case TypeTextMessageEnd:
		return decodeAs[TextMessageEnd](data)
	case TypeToolCallStart:
		return decodeAs[ToolCallStart](data)
	case TypeToolCallArgs:
		return decodeAs[ToolCallArgs](data)
	case TypeToolCallEnd:
		return decodeAs[ToolCallEnd](data)
	case TypeToolCallResult:
		return decodeAs[ToolCallResult](data)
	case TypeStateSnapshot:
		return decodeAs[StateSnapshot](data)
	case TypeStateDelta:
		return decodeAs[StateDelta](data)
	case TypeMessagesSnapshot:
		return decodeAs[MessagesSnapshot](data)
	case TypeActivitySnapshot:
		return decodeAs[ActivitySnapshot](data)
	case TypeActivityDelta:
		return decodeAs[ActivityDelta](data)
	case TypeRaw:
		return decodeAs[Raw](data)
	case TypeCustom:
		return decodeAs[Custom](data)
	case TypeRunStarted:
		return decodeAs[RunStarted](data)
	case TypeRunFinished:
		return decodeAs[RunFinished](data)
	case TypeRunError:
		return decodeAs[RunError](data)
	case TypeStepStarted:
		return decodeAs[StepStarted](data)
	case TypeStepFinished:
		return decodeAs[StepFinished](data)
	case TypeReasoningStart:
		return decodeAs[ReasoningStart](data)
	case TypeReasoningMessageStart:
		return decodeAs[ReasoningMessageStart](data)
	case TypeReasoningMessageContent:
		return decodeAs[ReasoningMessageContent](data)
	case TypeReasoningMessageEnd:
		return decodeAs[ReasoningMessageEnd](data)
	case TypeReasoningEnd:
		return decodeAs[ReasoningEnd](data)
	case TypeReasoningEncryptedValue:
		return decodeAs[ReasoningEncryptedValue](data)
	case TypeSubagentStarted:
		return decodeAs[SubagentStarted](data)
	case TypeSubagentFinished:
		return decodeAs[SubagentFinished](data)
	case TypeSubagentError:
		return decodeAs[SubagentError](data)
	}
	if !validName(typ) {
		return nil, fmt.Errorf("type: %q is no event name", typ)
	}
	return decodeUnknown(typ, data)
}

// member is a pointer to an event that decodes the members of its own type.
type member[T any] interface {
	*T
	// set stores a member, and reports whether the event has one of that name.
	set(name string, val []byte) (known bool, err error)
}

func decodeAs[T Event, P member[T]](data []byte) (Event, error) {
	var (
		ev      T
		b       Base
		unknown []byte
	)
	err := eachMember(data, func(name string, val []byte) error {
		if known, err := b.setCommon(name, val); known || err != nil {
			return err
		}
		known, err := P(&ev).set(name, val)
		if !known && err == nil {
			unknown = appendUnknown(unknown, name, val)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if r, ok := any(&ev).(interface{ lacks() string }); ok && r.lacks() != "" {
		return nil, within(r.lacks(), errors.New("is missing"))
	}
	b.Extra = closeUnknown(unknown)
	return ev.WithCommon(b), nil
}

func decodeUnknown(name Type, data []byte) (Event, error) {
	var (
		b    Base
		body []byte
	)
	err := eachMember(data, func(name string, val []byte) error {
		known, err := b.setCommon(name, val)
		if !known && err == nil {
			body = appendUnknown(body, name, val)
		}
		return err
	})
	return Unknown{Base: b, Name: name, Body: closeUnknown(body)}, err
}

// isCommon reports whether Base or an event's type holds the member of that name.
func isCommon(name string) bool {
	switch name {
	case "type", "threadId", "runId", "agent", "subagentRunId", "timestamp", "metadata", "rawEvent":
		return true
	}
	return false
}

func (b *Base) setCommon(name string, val []byte) (known bool, err error) {
	switch name {
	case "type":
	case "threadId":
		err = setString(&b.ThreadID, name, val)
	case "runId":
		err = setString(&b.RunID, name, val)
	case "agent":
		err = setString(&b.Agent, name, val)
	case "subagentRunId":
		err = setString(&b.SubagentRunID, name, val)
	case "timestamp":
		err = setMillis(&b.Timestamp, name, val)
	case "metadata":
		err = setObject(&b.Metadata, name, val)
	case "rawEvent":
		err = setOpt(&b.RawEvent, name, val)
	default:
		return false, nil
	}
	return true, err
}

// validName reports whether t may name an event of a type this package does not know.
func validName(t Type) bool {
	if len(t) == 0 || len(t) > 64 || t[0] < 'A' || t[0] > 'Z' {
		return false
	}
	for i := 1; i < len(t); i++ {
		c := t[i]
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}
