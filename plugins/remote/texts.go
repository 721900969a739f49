package remote

import (
	"encoding/json"
	"errors"
	"maps"
	"strconv"

	"github.com/batonrun/baton/runtime/agui"
)

var (
	errUnknown = errors.New("no open entity has this id")
	errFull    = errors.New("too many are open")
)

// marked returns metadata with the remote's ids, without members of the remote that have our names.
func marked(metadata json.RawMessage, m marks) json.RawMessage {
	members := map[string]json.RawMessage{}
	maps.Copy(members, object(metadata))
	for _, name := range []string{"name", "remoteId", "remoteParentId", "remoteInvented"} {
		delete(members, name)
	}
	maps.Copy(members, object(encoded(m)))
	if len(members) == 0 {
		return nil
	}
	return encoded(members)
}

// startText starts or continues a text message. Only one can be open: another is ended first and continued later.
func (r *relay) startText(b agui.Base, e agui.TextMessageStart) error {
	id := r.id("text", e.MessageID)
	open, isOpen := r.legal.OpenText()
	switch {
	case isOpen && open == id:
		return nil
	case isOpen:
		if err := r.emit(agui.TextMessageEnd{MessageID: open}); err != nil {
			return err
		}
	}
	b.Metadata = marked(e.Metadata, marks{ID: e.MessageID})
	return r.emit(agui.TextMessageStart{Base: b, MessageID: id, Role: agui.RoleAssistant, Name: e.Name})
}

// text appends to a text message, starting it if necessary.
func (r *relay) text(b agui.Base, theirs, delta string) error {
	if delta == "" {
		return nil
	}
	id := r.id("text", theirs)
	if open, ok := r.legal.OpenText(); !ok || open != id {
		if err := r.startText(b, agui.TextMessageStart{MessageID: theirs}); err != nil {
			return err
		}
	}
	return r.emit(agui.TextMessageContent{MessageID: id, Delta: delta})
}

func (r *relay) endText(e agui.TextMessageEnd) error {
	var said struct {
		Output *agui.WorkerOutput `json:"workerAgentOutput"`
	}
	if out := e.Output; out == nil && json.Unmarshal(e.Metadata, &said) == nil {
		e.Output = said.Output
	}
	if e.Output != nil && !r.end.answers {
		r.end.output = *e.Output // from a Baton: the output besides its text
		r.end.output.Status, r.end.output.Answer, r.end.output.Error = "", "", nil
	}
	id := r.ids["text:"+e.MessageID]
	if open, ok := r.legal.OpenText(); !ok || open != id {
		return nil
	}
	return r.emit(agui.TextMessageEnd{MessageID: id})
}

// startReasoning starts a reasoning message with its own span, and returns its id. An ended message continues as a new
// one.
func (r *relay) startReasoning(b agui.Base, theirs string) (string, error) {
	id := r.id("reasoning", theirs)
	if r.reasons[id] {
		return id, nil
	}
	b.Metadata = marked(nil, marks{ID: theirs})
	err := r.emit(agui.ReasoningStart{Base: agui.Base{SubagentRunID: b.SubagentRunID}, MessageID: id})
	if err != nil || !r.passed {
		return id, err
	}
	r.reasons[id] = true
	return id, r.emit(agui.ReasoningMessageStart{Base: b, MessageID: id})
}

func (r *relay) reason(b agui.Base, theirs, delta string) error {
	if delta == "" {
		return nil
	}
	id, err := r.startReasoning(b, theirs)
	if err != nil {
		return err
	}
	return r.emit(agui.ReasoningMessageContent{MessageID: id, Delta: delta})
}

func (r *relay) endReasoning(theirs string) error {
	id := r.ids["reasoning:"+theirs]
	if !r.reasons[id] {
		return nil
	}
	delete(r.reasons, id)
	if err := r.emit(agui.ReasoningMessageEnd{MessageID: id}); err != nil {
		return err
	}
	return r.emit(agui.ReasoningEnd{MessageID: id})
}

func (r *relay) encrypted(e agui.ReasoningEncryptedValue) error {
	id := ""
	if c := r.calls[e.EntityID]; e.Subtype == "tool-call" && c != nil && !c.held {
		id = c.id
	}
	if e.Subtype == "message" {
		if id = r.ids["text:"+e.EntityID]; id == "" {
			id = r.ids["reasoning:"+e.EntityID]
		}
	}
	if id == "" {
		r.drop(string(e.Type()), errUnknown)
		return nil
	}
	e.Base, e.EntityID = agui.Base{}, id
	return r.emit(e)
}

// unknown passes on an event of an unknown type: shorthands are expanded, AG-UI's deprecated names are replaced by new
// ones, and others stay unchanged.
func (r *relay) unknown(b agui.Base, e agui.Unknown) error {
	var m struct {
		MessageID       string    `json:"messageId"`
		Role            agui.Role `json:"role"`
		Name            string    `json:"name"`
		Delta           string    `json:"delta"`
		ToolCallID      string    `json:"toolCallId"`
		ToolCallName    string    `json:"toolCallName"`
		ParentMessageID string    `json:"parentMessageId"`
	}
	if e.Body != nil && json.Unmarshal(e.Body, &m) != nil {
		r.drop(string(e.Name), errors.New("a member is of the wrong type"))
		return nil
	}
	switch e.Name {
	case agui.TypeTextMessageChunk:
		return r.textChunk(b, agui.TextMessageStart{Base: e.Base, MessageID: m.MessageID, Role: m.Role, Name: m.Name}, m.Delta)
	case agui.TypeToolCallChunk:
		return r.callChunk(b, agui.ToolCallStart{Base: e.Base, ToolCallID: m.ToolCallID, ToolCallName: m.ToolCallName, ParentMessageID: m.ParentMessageID}, m.Delta)
	case agui.TypeReasoningMessageChunk:
		if m.MessageID != "" {
			r.chunks.reasoning = m.MessageID
		}
		return r.reason(b, r.chunks.reasoning, m.Delta)
	case "THINKING_START", "THINKING_END":
		return nil
	case "THINKING_TEXT_MESSAGE_START":
		r.thinking++
		return nil
	case "THINKING_TEXT_MESSAGE_CONTENT":
		return r.reason(b, "thinking "+strconv.Itoa(r.thinking), m.Delta) // these have no ids
	case "THINKING_TEXT_MESSAGE_END":
		return r.endReasoning("thinking " + strconv.Itoa(r.thinking))
	}
	e.Base = b
	return r.emit(e)
}

func (r *relay) textChunk(b agui.Base, e agui.TextMessageStart, delta string) error {
	if e.MessageID == "" {
		e.MessageID = r.chunks.text
	} else if e.MessageID != r.chunks.text {
		r.chunks.text = e.MessageID
		if err := r.startText(b, e); err != nil {
			return err
		}
	}
	return r.text(b, e.MessageID, delta)
}

func (r *relay) callChunk(b agui.Base, e agui.ToolCallStart, delta string) error {
	if e.ToolCallID == "" {
		e.ToolCallID = r.chunks.call
	} else if r.calls[e.ToolCallID] == nil {
		r.chunks.call = e.ToolCallID
		if err := r.startCall(b, e); err != nil {
			return err
		}
	}
	return r.arguments(e.ToolCallID, delta)
}
