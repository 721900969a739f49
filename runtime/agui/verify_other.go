package agui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// addOther checks the events that open and close nothing.
func (v *Verifier) addOther(ev Event, b Base) error {
	switch e := ev.(type) {
	case StateSnapshot:
		if !json.Valid(e.Snapshot) {
			return errors.New("snapshot is not valid JSON")
		}
	case StateDelta:
		if err := checkPatch(e.Delta, false); err != nil {
			return fmt.Errorf("delta: %w", err)
		}
	case MessagesSnapshot:
		if err := v.kept(e.Messages); err != nil {
			return err
		}
		v.own(e.Messages, true)
	case ActivitySnapshot:
		if e.MessageID == "" || e.ActivityType == "" {
			return errors.New("an activity needs a messageId and an activityType")
		}
		if !isObject(e.Content) {
			return errors.New("content must be an object")
		}
		if err := v.names(e.MessageID); err != nil {
			return err
		}
		if _, known := v.activities[e.MessageID]; !known || e.Replace == nil || *e.Replace {
			v.remember(v.activities, e.MessageID, b.SubagentRunID)
		}
	case ActivityDelta:
		if e.ActivityType == "" {
			return errors.New("an activity needs an activityType")
		}
		if err := checkPatch(e.Patch, true); err != nil {
			return fmt.Errorf("patch: %w", err)
		}
		_, err := claim(v.activities, e.MessageID, b)
		return err
	case ReasoningEncryptedValue:
		return v.encrypted(e)
	case Custom:
		if e.Name == "" {
			return errors.New("name is empty")
		}
		if !json.Valid(e.Value) {
			return errors.New("value is not valid JSON")
		}
		v.modelCall(e)
	case Raw:
		if !json.Valid(e.Event) {
			return errors.New("event is not valid JSON")
		}
	case Unknown:
		return e.check()
	default:
		return errors.New("not an event of this package")
	}
	return nil
}

// kept refuses a snapshot without an open message, whose later deltas would be lost.
func (v *Verifier) kept(list []Message) error {
	ids, calls, reasoned := map[string]bool{}, map[string]bool{}, false
	for i := range list {
		m := &list[i]
		ids[m.ID] = ids[m.ID] || m.Role != RoleActivity
		reasoned = reasoned || m.Role == RoleReasoning
		for _, tc := range m.ToolCalls {
			calls[tc.ID] = true
		}
	}
	if v.text != nil && !ids[v.text.id] {
		return fmt.Errorf("lacks text message %q, which is open", v.text.id)
	}
	for _, s := range v.reason {
		if reasoned && !ids[s.id] { // clients keep their reasoning if a snapshot has none
			return fmt.Errorf("lacks reasoning message %q, which is open", s.id)
		}
	}
	for _, c := range v.pending {
		if c.open && !calls[c.id] {
			return fmt.Errorf("lacks tool call %q, which is open", c.id)
		}
	}
	return nil
}

// encrypted refuses a value for an entity that belongs to another agent.
func (v *Verifier) encrypted(e ReasoningEncryptedValue) (err error) {
	switch e.Subtype {
	case "tool-call":
		if c := v.calls[e.EntityID]; c != nil {
			return continues(e.Base, c.owner)
		}
		_, err = claim(v.past, e.EntityID, e.Base)
	case "message":
		owners := v.messages
		if _, known := owners[e.EntityID]; !known {
			owners = v.reasoning
		}
		_, err = claim(owners, e.EntityID, e.Base)
	default:
		err = fmt.Errorf("unknown subtype %q", e.Subtype)
	}
	return err
}

// check refuses the types of events that are never written: shorthands, AG-UI's withdrawn names, and the types of this
// package.
func (e Unknown) check() error {
	name := string(e.Name)
	switch {
	case !validName(e.Name):
		return fmt.Errorf("%q is no event name", name)
	case strings.HasSuffix(name, "_CHUNK"):
		return errors.New("write a start, content and end instead of the shorthand")
	case strings.HasPrefix(name, "THINKING_"), name == "REASONING_CONTENT":
		return errors.New("write REASONING events instead")
	case knownTypes[e.Name]:
		return errors.New("must be the struct of its type")
	case e.Body != nil && !isObject(e.Body):
		return errors.New("body must be an object")
	}
	return nil
}

// check refuses common members that would not survive a client's parser.
func (b *Base) check() error {
	switch {
	case b.Metadata != nil && !isObject(b.Metadata):
		return errors.New("metadata must be an object")
	case b.Timestamp < 0 || b.Timestamp > 1<<53:
		return errors.New("timestamp must be the milliseconds since 1970, 2^53 at most")
	case b.RawEvent != nil && !json.Valid(b.RawEvent):
		return errors.New("rawEvent is not valid JSON")
	case b.Extra != nil && !isObject(b.Extra):
		return errors.New("the unknown members must be an object")
	}
	return nil
}

// holdsJSON reports whether ev has members beside the common ones that are JSON already.
func holdsJSON(ev Event) bool {
	switch ev.(type) {
	case TextMessageEnd, ToolCallResult, StateSnapshot, StateDelta, MessagesSnapshot, ActivitySnapshot,
		ActivityDelta, Raw, Custom, RunStarted, RunFinished, SubagentFinished, Unknown:
		return true
	}
	return false
}

func isObject(raw json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte{'{'}) && json.Valid(raw)
}
