package agui

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

func (v *Verifier) startText(e TextMessageStart) error {
	switch {
	case e.MessageID == "":
		return errors.New("messageId is empty")
	case v.text != nil:
		return fmt.Errorf("text message %q is still open", v.text.id)
	}
	switch e.Role {
	case "", RoleUser, RoleAssistant, RoleSystem, RoleDeveloper:
	default:
		return fmt.Errorf("a text message cannot be of role %q", e.Role)
	}
	owner, err := claim(v.messages, e.MessageID, e.Base)
	if err == nil {
		err = v.room(e.MessageID)
	}
	if err != nil {
		return err
	}
	v.remember(v.messages, e.MessageID, owner)
	v.text = &stream{id: e.MessageID, agent: e.Agent, tag: e.SubagentRunID, owner: owner}
	return nil
}

func (v *Verifier) endText(e TextMessageEnd) error {
	if v.text == nil || v.text.id != e.MessageID {
		return fmt.Errorf("text message %q is not open", e.MessageID)
	}
	if err := continues(e.Base, v.text.owner); err != nil {
		return err
	}
	v.text = nil
	return nil
}

func (v *Verifier) startReasoning(open *[]stream, id string, b Base, kind string) error {
	if id == "" {
		return errors.New("messageId is empty")
	}
	if s, _ := find(*open, id, kind); s != nil {
		return fmt.Errorf("%s %q is open already", kind, id)
	}
	owner, err := claim(v.reasoning, id, b)
	if err == nil {
		err = v.room(id)
	}
	if err != nil {
		return err
	}
	v.remember(v.reasoning, id, owner)
	*open = append(*open, stream{id: id, agent: b.Agent, tag: b.SubagentRunID, owner: owner})
	return nil
}

func (v *Verifier) endReasoning(open *[]stream, id string, b Base, kind string) error {
	s, err := find(*open, id, kind)
	if err != nil {
		return err
	}
	if err := continues(b, s.owner); err != nil {
		return err
	}
	i := slices.IndexFunc(*open, func(s stream) bool { return s.id == id })
	*open = slices.Delete(*open, i, i+1)
	return nil
}

func find(list []stream, id, kind string) (*stream, error) {
	for i := range list {
		if list[i].id == id {
			return &list[i], nil
		}
	}
	return nil, fmt.Errorf("%s %q is not open", kind, id)
}

func (v *Verifier) startCall(e ToolCallStart) error {
	_, past := v.past[e.ToolCallID]
	switch {
	case e.ToolCallID == "":
		return errors.New("toolCallId is empty")
	case e.ToolCallName == "":
		return errors.New("toolCallName is empty")
	case past || v.calls[e.ToolCallID] != nil:
		return fmt.Errorf("tool call %q was made before", e.ToolCallID)
	}
	owner := e.SubagentRunID
	if parent, known := v.messages[e.ParentMessageID]; known && e.ParentMessageID != "" {
		if err := continues(e.Base, parent); err != nil {
			return fmt.Errorf("parent message %q: %w", e.ParentMessageID, err)
		}
		owner = parent
	}
	if err := v.room(e.ToolCallID); err != nil {
		return err
	}
	v.named += len(e.ToolCallID) + perName
	v.know(&call{stream: stream{id: e.ToolCallID, agent: e.Agent, tag: e.SubagentRunID, owner: owner}, open: true})
	return nil
}

func (v *Verifier) know(c *call) {
	if v.calls == nil {
		v.calls = map[string]*call{}
	}
	v.calls[c.id] = c
	v.pending = append(v.pending, c)
}

// settle removes a call that is closed and answered from the pending ones.
func (v *Verifier) settle(c *call) {
	if i := slices.Index(v.pending, c); i >= 0 && c.answered && !c.open {
		v.pending = slices.Delete(v.pending, i, i+1)
	}
}

func (v *Verifier) openCall(id string) (*call, error) {
	if c := v.calls[id]; c != nil && c.open {
		return c, nil
	}
	return nil, fmt.Errorf("tool call %q is not open", id)
}

func (v *Verifier) endCall(e ToolCallEnd) error {
	c, err := v.openCall(e.ToolCallID)
	if err != nil {
		return err
	}
	if err := continues(e.Base, c.owner); err != nil {
		return err
	}
	c.open = false
	v.settle(c)
	return nil
}

func (v *Verifier) answer(e ToolCallResult) error {
	c := v.calls[e.ToolCallID]
	switch {
	case e.MessageID == "":
		return errors.New("messageId is empty")
	case c == nil:
		return fmt.Errorf("tool call %q is not known", e.ToolCallID)
	case c.answered:
		return fmt.Errorf("tool call %q has its result already", e.ToolCallID)
	case e.Parts != nil && !bytes.HasPrefix(e.Parts, []byte{'['}):
		return errors.New("parts must be an array")
	}
	if err := v.names(e.MessageID); err != nil {
		return err
	}
	c.answered = true
	v.settle(c)
	v.remember(v.messages, e.MessageID, e.SubagentRunID)
	return nil
}
