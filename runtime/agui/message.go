package agui

import (
	"encoding/json"
	"errors"
	"fmt"
)

// MarshalJSON returns m as AG-UI writes it, with the members this package does not know.
func (m Message) MarshalJSON() ([]byte, error) { return m.append(nil, Stored), nil }

// AppendJSON appends m as projection p writes it. It does not adapt m to p: Project does.
func (m Message) AppendJSON(dst []byte, p Projection) []byte { return m.append(dst, p) }

// UnmarshalJSON reads AG-UI's form. Optional members may be null; a part of dialect 0.0's type binary becomes the equivalent
// part of 1.0.
func (m *Message) UnmarshalJSON(data []byte) error {
	*m = Message{}
	var content, unknown []byte
	err := eachMember(data, func(name string, val []byte) error {
		switch name {
		case "id":
			return setString(&m.ID, name, val)
		case "role":
			return setString(&m.Role, name, val)
		case "content":
			content = val
		case "name":
			return setString(&m.Name, name, val)
		case "toolCalls":
			return setList(&m.ToolCalls, name, val)
		case "toolCallId":
			return setString(&m.ToolCallID, name, val)
		case "error":
			return setString(&m.Error, name, val)
		case "activityType":
			return setString(&m.ActivityType, name, val)
		case "encryptedValue":
			return setString(&m.EncryptedValue, name, val)
		case "subagentRunId":
			return setString(&m.SubagentRunID, name, val)
		case "metadata":
			return setObject(&m.Metadata, name, val)
		default:
			unknown = appendUnknown(unknown, name, val)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !roles[m.Role] {
		return within("role", fmt.Errorf("%q is no role", m.Role))
	}
	m.Extra = closeUnknown(unknown)
	return m.setContent(content)
}

var roles = map[Role]bool{
	RoleUser:      true,
	RoleAssistant: true,
	RoleSystem:    true,
	RoleDeveloper: true,
	RoleTool:      true,
	RoleReasoning: true,
	RoleActivity:  true,
}

// setContent sets the Content or the Parts that a message of m's role may have.
func (m *Message) setContent(val []byte) error {
	switch {
	case m.Role == RoleActivity && isNull(val):
		m.Parts = json.RawMessage("{}")
		return nil
	case isNull(val):
		return nil
	case m.Role == RoleActivity:
		return setObject(&m.Parts, "content", val)
	case val[0] == '"':
		return setString(&m.Content, "content", val)
	case val[0] == '[' && (m.Role == RoleUser || m.Role == RoleTool):
		parts, err := decodeParts(val)
		m.Parts = parts
		return err
	case val[0] == '[':
		return within("content", fmt.Errorf("must be a string for role %s", m.Role))
	}
	return within("content", errors.New("must be a string or an array of parts"))
}

func (m *Message) append(dst []byte, p Projection) []byte {
	dst = append(dst, '{')
	dst = appendStr(dst, "id", m.ID)
	dst = appendStr(dst, "role", string(m.Role))
	switch {
	case m.Role == RoleActivity:
		dst = appendRaw(dst, "content", m.Parts, "{}")
	case m.Parts != nil:
		dst = appendRaw(dst, "content", m.Parts, "[]")
	case m.Role != RoleAssistant || m.Content != "" || len(m.ToolCalls) == 0:
		dst = appendStr(dst, "content", m.Content)
	}
	dst = appendOptStr(dst, "name", m.Name)
	if len(m.ToolCalls) > 0 {
		dst = append(appendKey(dst, "toolCalls"), '[')
		for i := range m.ToolCalls {
			dst = m.ToolCalls[i].append(appendComma(dst))
		}
		dst = append(dst, ']')
	}
	dst = appendOptStr(dst, "toolCallId", m.ToolCallID)
	dst = appendOptStr(dst, "error", m.Error)
	dst = appendOptStr(dst, "activityType", m.ActivityType)
	dst = appendOptStr(dst, "encryptedValue", m.EncryptedValue)
	if !p.legacy() {
		dst = appendOptStr(dst, "subagentRunId", m.SubagentRunID)
	}
	dst = appendOptRaw(dst, "metadata", m.Metadata)
	if !p.strict() {
		dst = appendMembers(dst, m.Extra)
	}
	return append(dst, '}')
}

func appendMessages(dst []byte, list []Message, p Projection) []byte {
	dst = append(dst, '[')
	for i := range list {
		dst = list[i].append(appendComma(dst), p)
	}
	return append(dst, ']')
}

// appendEncoded is appendMessages for encoded messages.
func appendEncoded(dst []byte, list []json.RawMessage) []byte {
	dst = append(dst, '[')
	for _, m := range list {
		dst = append(appendComma(dst), m...)
	}
	return append(dst, ']')
}

// MarshalJSON returns c as AG-UI writes it.
func (c ToolCall) MarshalJSON() ([]byte, error) { return c.append(nil), nil }

// UnmarshalJSON reads AG-UI's form.
func (c *ToolCall) UnmarshalJSON(data []byte) error {
	*c = ToolCall{}
	return eachMember(data, func(name string, val []byte) error {
		switch name {
		case "id":
			return setString(&c.ID, name, val)
		case "function":
			if isNull(val) {
				return nil
			}
			return within(name, eachMember(val, func(name string, val []byte) error {
				switch name {
				case "name":
					return setString(&c.Name, name, val)
				case "arguments":
					return setString(&c.Arguments, name, val)
				}
				return nil
			}))
		case "encryptedValue":
			return setString(&c.EncryptedValue, name, val)
		case "metadata":
			return setObject(&c.Metadata, name, val)
		}
		return nil
	})
}

func (c *ToolCall) append(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendStr(dst, "id", c.ID)
	dst = appendStr(dst, "type", "function")
	dst = append(appendKey(dst, "function"), '{')
	dst = appendStr(dst, "name", c.Name)
	dst = appendStr(dst, "arguments", c.Arguments)
	dst = append(dst, '}')
	dst = appendOptStr(dst, "encryptedValue", c.EncryptedValue)
	dst = appendOptRaw(dst, "metadata", c.Metadata)
	return append(dst, '}')
}

var (
	_ json.Marshaler   = Message{}
	_ json.Unmarshaler = (*Message)(nil)
	_ json.Marshaler   = ToolCall{}
	_ json.Unmarshaler = (*ToolCall)(nil)
)
