package llm

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/runtime/agui"
)

// convert returns a message of the thread in the form for the model.
func (t *turn) convert(m *agui.Message) []llms.MessageContent {
	switch m.Role {
	case agui.RoleUser:
		return []llms.MessageContent{{Role: llms.ChatMessageTypeHuman, Parts: t.userParts(m)}}
	case agui.RoleAssistant:
		ai := llms.MessageContent{Role: llms.ChatMessageTypeAI}
		if text := m.Text(); text != "" {
			ai.Parts = append(ai.Parts, llms.TextContent{Text: text})
		}
		for _, c := range m.ToolCalls {
			t.called(c)
			ai.Parts = append(ai.Parts, toolCall(c.ID, t.tools.wire(c.Name), c.Arguments))
		}
		if ai.Parts == nil {
			return nil
		}
		return []llms.MessageContent{ai}
	case agui.RoleTool:
		return []llms.MessageContent{t.result(m.ToolCallID, t.tools.wire(t.past[m.ToolCallID].Name), returned(t.past[m.ToolCallID].Arguments, m))}
	}
	return nil
}

// returned returns the result of a call of an earlier run, as the model saw it then.
func returned(asked string, m *agui.Message) string {
	var said struct {
		Output *agui.ToolOutput `json:"toolAgentOutput"`
	}
	note := ""
	if m.Metadata != nil && json.Unmarshal(m.Metadata, &said) == nil && said.Output != nil {
		note = edited(asked, said.Output)
		if said.Output.Error != nil {
			said.Output.ResultSummary = m.Text()
			return note + resultText(said.Output)
		}
	}
	if m.Error != "" {
		return resultText(&agui.ToolOutput{Status: agui.StatusFailure, ResultSummary: m.Text(), Error: &agui.OutputError{Code: "tool_failed", Message: m.Error}})
	}
	return note + m.Text()
}

// called records a call, for the tool message with its result.
func (t *turn) called(c agui.ToolCall) {
	if t.past == nil {
		t.past = make(map[string]agui.ToolCall)
	}
	t.past[c.ID] = c
}

// userParts returns the parts of a user's message. Parts that the model does not accept are named.
func (t *turn) userParts(m *agui.Message) (parts []llms.ContentPart) {
	for _, p := range m.ContentParts() {
		part := t.contentPart(&p)
		if part == nil {
			part = llms.TextContent{Text: fmt.Sprintf("[a part of type %s, which cannot be shown]", p.Type)}
		}
		parts = append(parts, part)
	}
	parts = append(parts, t.attached[m.ID]...)
	if parts == nil {
		parts = append(parts, llms.TextContent{})
	}
	return parts
}

// contentPart converts a part for the models, nil if a model does not accept it. Providers fetch the URLs of images
// themselves.
func (a *Agent) contentPart(p *agui.Part) llms.ContentPart {
	switch {
	case p.Type == "text":
		return llms.TextContent{Text: p.Text}
	case p.Source == nil:
		return nil
	case p.Source.Type == "url" && p.Type == "image" && a.takes("", true):
		return llms.ImageURLContent{URL: p.Source.Value}
	case p.Source.Type != "data":
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(p.Source.Value)
	if err != nil {
		return nil
	}
	if strings.HasPrefix(p.Source.MimeType, "text/") {
		return llms.TextContent{Text: strings.ToValidUTF8(string(data), "\uFFFD")}
	}
	if !a.takes(p.Source.MimeType, false) {
		return nil
	}
	return llms.BinaryContent{MIMEType: p.Source.MimeType, Data: data}
}

// mediaOf returns the images and files of a tool's result after its name, or nil.
func (a *Agent) mediaOf(tool string, parts json.RawMessage) (list []llms.ContentPart) {
	if parts == nil {
		return nil
	}
	for _, p := range (agui.Message{Role: agui.RoleTool, Parts: parts}).ContentParts() {
		if part := a.contentPart(&p); part != nil && p.Type != "text" {
			list = append(list, part)
		}
	}
	if list == nil {
		return nil
	}
	return append([]llms.ContentPart{llms.TextContent{Text: "From the result of " + tool + ":"}}, list...)
}

// unsupported returns the type of the first part that the models do not accept, or "".
func (a *Agent) unsupported(m *agui.Message) string {
	if m.Role != agui.RoleUser {
		return ""
	}
	for _, p := range m.ContentParts() {
		switch {
		case a.contentPart(&p) != nil:
		case p.Source != nil && p.Source.Type == "url":
			return p.Type + " by its URL"
		case p.Source != nil && p.Source.MimeType != "":
			return p.Type + " of " + p.Source.MimeType
		default:
			return p.Type
		}
	}
	return ""
}
