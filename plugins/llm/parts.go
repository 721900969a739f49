package llm

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// converter brings messages of the thread into the form for the model.
type converter struct {
	a        *Agent
	run      *plugins.Run
	tools    *toolbox
	results  results
	past     map[string]call  // earlier calls by our id
	attached map[string]files // attachments by message id
	shown    int64            // size of the attachments in bytes
}

// convert returns messages of the thread in the form for the model.
func (v *converter) convert(messages []agui.Message) (list []message) {
	var media []llms.ContentPart // of the latest results, behind which it follows
	show := func() {
		if media != nil {
			list = append(list, plainSent(llms.MessageContent{Role: llms.ChatMessageTypeHuman, Parts: media})...)
			media = nil
		}
	}
	answer := func(m *agui.Message) {
		result, parts := v.pastResult(m)
		list, media = append(list, result), append(media, parts...)
	}
	for i := 0; i < len(messages); i++ {
		switch m := &messages[i]; m.Role {
		case agui.RoleUser:
			show()
			list = append(list, v.userMessage(m))
		case agui.RoleTool:
			answer(m)
		case agui.RoleAssistant:
			show()
			parts, n := v.restore(messages[i:])
			if parts != nil {
				list = append(list, message{llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: parts}, sentAnswers(messages[i : i+n])})
			}
			for range n - 1 {
				if i++; messages[i].Role == agui.RoleTool {
					answer(&messages[i])
				}
			}
		}
	}
	show()
	return list
}

// pastResult returns the result of a call of an earlier run in the form for the model, and its images and files.
func (v *converter) pastResult(m *agui.Message) (message, []llms.ContentPart) {
	c, ok := v.past[m.ToolCallID]
	if !ok {
		c.ID, c.ProviderID = m.ToolCallID, m.ToolCallID
	}
	result := v.result(c, returned(c.Arguments, m))
	result.sent[0].ID = m.ID
	return result, v.a.mediaOf(v.tools.wire(c.Name), m.Parts)
}

// result returns a call's result in the form for the model. A long one is shortened.
func (v *converter) result(c call, content string) message {
	got := v.results.add(c.ID, content)
	return message{llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
		llms.ToolCallResponse{ToolCallID: c.ProviderID, Name: v.tools.wire(c.Name), Content: got},
	}}, []plugins.PromptMessage{sentResult(c.ID, got, content)}}
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

// sentAnswers returns the answers among messages of the thread.
func sentAnswers(messages []agui.Message) (list []plugins.PromptMessage) {
	for i := range messages {
		m := &messages[i]
		if m.Role != agui.RoleAssistant {
			continue
		}
		var calls []call
		for _, c := range m.ToolCalls {
			calls = append(calls, call{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
		}
		list = append(list, sentAnswer(m.ID, m.Text(), calls))
	}
	return list
}

// userMessage returns a user's message with its attachments.
func (v *converter) userMessage(m *agui.Message) message {
	var parts []llms.ContentPart
	for _, p := range m.ContentParts() {
		parts = append(parts, v.a.contentPart(&p))
	}
	files := v.attached[m.ID]
	said := agui.Message{ID: m.ID, Role: agui.RoleUser}
	setContent(&said, append(sentParts(parts), files.sent...))
	parts = append(parts, files.parts...)
	if parts == nil {
		parts, said.Parts = append(parts, llms.TextContent{}), nil
	}
	return message{llms.MessageContent{Role: llms.ChatMessageTypeHuman, Parts: parts}, []plugins.PromptMessage{{Message: said}}}
}

// contentPart converts a part for the models. A part that no model accepts becomes a text that says so; Baton's models do the same with
// parts that their provider does not accept.
func (a *Agent) contentPart(p *agui.Part) llms.ContentPart {
	switch {
	case p.Type == "text":
		return llms.TextContent{Text: p.Text}
	case p.Source == nil || p.Source.Type != "data" && p.Source.Type != "url":
		return llms.TextContent{Text: fmt.Sprintf("[a part of type %s, which cannot be shown]", clip(p.Type, 100))}
	case hasScheme(p.Source.Value, "data"):
		return llms.ImageURLContent{URL: p.Source.Value}
	case p.Source.Type == "url" && p.Type == "image" && a.takes("", true):
		return llms.ImageURLContent{URL: p.Source.Value} // providers fetch it themselves
	case p.Source.Type == "url":
		return llms.TextContent{Text: fmt.Sprintf("[%s at %s, which cannot be shown]", clip(p.Type, 100), clip(p.Source.Value, 1000))}
	}
	data, err := agui.DecodeBase64(p.Source.Value)
	if err != nil {
		return llms.TextContent{Text: fmt.Sprintf("[%s %s, which cannot be read]", clip(p.Type, 100), clip(p.Source.MimeType, 100))}
	}
	kind, _, _ := strings.Cut(p.Source.MimeType, ";")
	if strings.HasPrefix(kind, "text/") {
		return llms.TextContent{Text: strings.ToValidUTF8(string(data), "\uFFFD")}
	}
	return llms.BinaryContent{MIMEType: strings.TrimSpace(kind), Data: data}
}

// hasScheme reports whether s begins with the scheme of a URL.
func hasScheme(s, scheme string) bool {
	return len(s) > len(scheme) && s[len(scheme)] == ':' && strings.EqualFold(s[:len(scheme)], scheme)
}

// mediaOf returns the images and files of a tool's result after its name, or nil.
func (a *Agent) mediaOf(tool string, parts json.RawMessage) (list []llms.ContentPart) {
	if parts == nil {
		return nil
	}
	for _, p := range (agui.Message{Role: agui.RoleTool, Parts: parts}).ContentParts() {
		if p.Type != "text" {
			list = append(list, a.contentPart(&p))
		}
	}
	if list == nil {
		return nil
	}
	return append([]llms.ContentPart{llms.TextContent{Text: "From the result of " + tool + ":"}}, list...)
}
