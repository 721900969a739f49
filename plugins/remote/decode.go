package remote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/batonrun/baton/plugins/problem"
	"github.com/batonrun/baton/runtime/agui"
)

// decode decodes an event. A member that should be a text and is another value becomes its JSON, other members and messages of
// a wrong type are removed, which the error says. The end of a run is never lost.
func decode(data []byte) (agui.Event, error) {
	ev, err := agui.Decode(data)
	if err == nil {
		return ev, nil
	}
	all := object(data)
	if all == nil {
		return nil, err
	}
	typ := agui.Type(textOf(all["type"]))
	for _, name := range []string{"timestamp", "rawEvent", "metadata"} {
		delete(all, name)
	}
	for name, val := range all {
		if isText(typ, name) {
			all[name] = encoded(textOf(val))
		}
	}
	var lost error
	if typ == agui.TypeMessagesSnapshot {
		all["messages"], lost = legible(all["messages"])
	}
	if ev, again := agui.Decode(encoded(all)); again == nil {
		return ev, lost
	}
	for name, val := range all {
		delete(all, name)
		if ev, again := agui.Decode(encoded(all)); again == nil {
			return ev, err
		}
		all[name] = val
	}
	switch typ {
	case agui.TypeRunFinished:
		return agui.RunFinished{}, err
	case agui.TypeRunError:
		return agui.RunError{Message: textOf(all["message"]), Code: textOf(all["code"])}, err
	}
	return nil, err
}

// isText reports whether AG-UI's events of a type have a text as their member of that name.
func isText(typ agui.Type, name string) bool {
	switch name {
	case "delta":
		return typ != agui.TypeStateDelta
	case "content":
		return typ == agui.TypeToolCallResult
	case "messageId", "toolCallId", "toolCallName", "parentMessageId", "stepName", "activityType", "name", "message", "code",
		"description", "role", "subagentRunId", "parentSubagentRunId", "parentToolCallId", "entityId", "encryptedValue", "threadId", "runId":
		return true
	}
	return false
}

// textOf returns a text, the texts in a list of content parts, or the JSON of another value.
func textOf(val json.RawMessage) string {
	var text string
	var parts []struct{ Type, Text string }
	switch {
	case val == nil || json.Unmarshal(val, &text) == nil: // null is ""
		return text
	case json.Unmarshal(val, &parts) == nil && len(parts) > 0 && parts[0].Type == "text":
		for _, p := range parts {
			text += p.Text
		}
		return text
	}
	return string(val)
}

// legible returns a snapshot's messages that can be decoded, with texts for other values. The error is about the others.
func legible(list json.RawMessage) (json.RawMessage, error) {
	var messages []agui.Message
	all := elements(list)
	for _, val := range all {
		var m agui.Message
		if m.UnmarshalJSON(val) == nil || m.UnmarshalJSON(repaired(val)) == nil {
			messages = append(messages, m)
		}
	}
	if n := len(messages); n == 0 || n < len(all) {
		return encoded(messages), fmt.Errorf("%d of %d messages are readable", n, len(all))
	}
	return encoded(messages), nil
}

// repaired returns a message with texts for other values.
func repaired(message json.RawMessage) json.RawMessage {
	all := object(message)
	if all == nil {
		return json.RawMessage("{}")
	}
	delete(all, "metadata")
	for _, name := range []string{"id", "role", "name", "content", "toolCallId", "error", "activityType", "encryptedValue", "subagentRunId"} {
		if val := all[name]; val != nil && (name != "content" || string(all["role"]) != `"activity"`) {
			all[name] = encoded(textOf(val))
		}
	}
	var calls []map[string]json.RawMessage
	for _, val := range elements(all["toolCalls"]) {
		called := object(object(val)["function"])
		calls = append(calls, map[string]json.RawMessage{
			"id":       encoded(textOf(object(val)["id"])),
			"function": encoded(map[string]string{"name": textOf(called["name"]), "arguments": textOf(called["arguments"])}),
		})
	}
	all["toolCalls"] = encoded(calls)
	return encoded(all)
}

// object returns the members of an object, nil for another value.
func object(raw json.RawMessage) (all map[string]json.RawMessage) {
	_ = json.Unmarshal(raw, &all)
	return all
}

// elements returns the elements of a list, nil for another value.
func elements(raw json.RawMessage) (list []json.RawMessage) {
	_ = json.Unmarshal(raw, &list)
	return list
}

// complaintIn returns the description in an error or a text that is no event of AG-UI, or "".
func complaintIn(data []byte, hide func(string) string) string {
	all := object(data)
	sentence := !json.Valid(data) && data[0] != ':' && bytes.IndexByte(data, ' ') > 0 // a word is a sign of life
	if sentence || strings.EqualFold(textOf(all["type"]), "error") {
		return problem.Sentence(data, hide)
	}
	for _, name := range []string{"error", "errors", "detail"} {
		if val := all[name]; val != nil && !bytes.Equal(val, []byte("null")) {
			return problem.Sentence(data, hide)
		}
	}
	return ""
}
