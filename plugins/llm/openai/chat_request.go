package openai

import (
	"encoding/json"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm/wire"
)

type chatRequest struct {
	Model               string         `json:"model"`
	Messages            []chatMessage  `json:"messages"`
	Stream              bool           `json:"stream"`
	StreamOptions       *streamOptions `json:"stream_options,omitempty"`
	Tools               []chatTool     `json:"tools,omitempty"`
	ToolChoice          any            `json:"tool_choice,omitempty"`
	ResponseFormat      any            `json:"response_format,omitempty"`
	MaxTokens           *int           `json:"max_tokens,omitempty"`
	MaxCompletionTokens *int           `json:"max_completion_tokens,omitempty"`
	Temperature         *float64       `json:"temperature,omitempty"`
	TopP                *float64       `json:"top_p,omitempty"`
	Seed                *int           `json:"seed,omitempty"`
	Stop                []string       `json:"stop,omitempty"`
	FrequencyPenalty    *float64       `json:"frequency_penalty,omitempty"`
	PresencePenalty     *float64       `json:"presence_penalty,omitempty"`
	ReasoningEffort     string         `json:"reasoning_effort,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatMessage struct {
	Role             string       `json:"role"`
	Content          any          `json:"content,omitempty"` // a string, a list of parts, null or absent
	ToolCalls        []chatCall   `json:"tool_calls,omitempty"`
	ToolCallID       string       `json:"tool_call_id,omitempty"`
	ReasoningContent string       `json:"reasoning_content,omitempty"`
	Reasoning        string       `json:"reasoning,omitempty"`
	ReasoningDetails []chatDetail `json:"reasoning_details,omitempty"`

	thinking string // for Content
}

type chatPart struct {
	Type     string     `json:"type"`
	Text     string     `json:"text,omitempty"`
	ImageURL *chatImage `json:"image_url,omitempty"`
	File     *chatFile  `json:"file,omitempty"`
}

type chatImage struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

type chatFile struct {
	Filename string `json:"filename"`
	FileData string `json:"file_data"`
}

type chatCall struct {
	ID           string            `json:"id"`
	Type         string            `json:"type"`
	Function     llms.FunctionCall `json:"function"`
	ExtraContent *chatExtra        `json:"extra_content,omitempty"`
}

type chatTool struct {
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict,omitempty"`
}

type object = map[string]any

// chatShape returns a request of chat completions.
func (m *Model) chatShape(c *wire.Conversation, caps wire.Caps) any {
	o := c.Options
	r := &chatRequest{
		Model: c.Model, Messages: chatMessages(c, caps), Stream: true, StreamOptions: &streamOptions{IncludeUsage: true},
		Temperature: wire.Number(o.Temperature), TopP: wire.Number(o.TopP), Seed: wire.Number(o.Seed), Stop: o.StopWords,
		FrequencyPenalty: wire.Number(o.FrequencyPenalty), PresencePenalty: wire.Number(o.PresencePenalty),
		ReasoningEffort: m.cfg.Reasoning,
	}
	if caps.MaxTokens == "max_completion_tokens" {
		r.MaxCompletionTokens = wire.Number(o.MaxTokens)
	} else {
		r.MaxTokens = wire.Number(o.MaxTokens)
	}
	for _, t := range c.Tools {
		r.Tools = append(r.Tools, chatTool{Type: "function", Function: chatFunction{t.Name, t.Description, t.Parameters, t.Strict}})
	}
	if mode, name := wire.Choice(o); len(r.Tools) > 0 && name != "" {
		r.ToolChoice = object{"type": "function", "function": object{"name": name}}
	} else if len(r.Tools) > 0 && mode != "" {
		r.ToolChoice = mode
	}
	switch {
	case len(c.Schema) > 0:
		r.ResponseFormat = object{"type": "json_schema", "json_schema": object{
			"name": "answer", "schema": c.Schema, "strict": strict(c.Schema),
		}}
	case o.JSONMode:
		r.ResponseFormat = object{"type": "json_object"}
	}
	return r
}

// chatMessages returns the messages of a request; each result of a tool is one.
func chatMessages(c *wire.Conversation, caps wire.Caps) (list []chatMessage) {
	if len(c.System) > 0 {
		list = append(list, chatMessage{Role: "system", Content: strings.Join(c.System, "\n")})
	}
	earlier := len(c.Messages) - len(c.Turn())
	for i, m := range c.Messages {
		if m.Role == wire.Results {
			list = append(list, chatResults(m, caps)...)
			continue
		}
		msg := chatMessage{Role: m.Role}
		var parts []chatPart
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				msg.ToolCalls = append(msg.ToolCalls, chatCall{ID: p.Call.ID, Type: "function", Function: llms.FunctionCall{Name: p.Call.Name, Arguments: string(p.Call.Arguments)}})
			case p.Media != nil:
				parts = append(parts, chatMedia(p.Media))
			case p.Carried != nil:
				msg.carry(p.Carried, caps.Reasoning)
			default:
				parts = append(parts, chatPart{Type: "text", Text: p.Text})
			}
		}
		if caps.Missing && m.Role == wire.Assistant && msg.ReasoningContent == "" {
			msg.ReasoningContent = "…"
		}
		if caps.Signed && i >= earlier && len(msg.ToolCalls) > 0 && msg.ToolCalls[0].ExtraContent == nil {
			msg.ToolCalls[0].ExtraContent = &chatExtra{}
			msg.ToolCalls[0].ExtraContent.Google.ThoughtSignature = wire.Unsigned
		}
		if msg.Content = contentOf(parts, caps); msg.thinking != "" {
			msg.Content = thinkingContent(msg.thinking, parts)
		}
		list = append(list, msg)
	}
	return list
}

func chatResults(m wire.Message, caps wire.Caps) (list []chatMessage) {
	for _, p := range m.Parts {
		text := p.Result.Text
		if text == "" && caps.Content == "absent" {
			text = "(empty)"
		}
		list = append(list, chatMessage{Role: "tool", ToolCallID: p.Result.ID, Content: text})
	}
	return list
}

// contentOf returns the content of a message: a string if all parts are text, because many servers accept only that.
func contentOf(parts []chatPart, caps wire.Caps) any {
	if len(parts) == 0 {
		switch caps.Content {
		case "absent":
			return nil
		case "null":
			return json.RawMessage("null")
		}
		return ""
	}
	var texts []string
	for _, p := range parts {
		if p.Type != "text" {
			return parts
		}
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n")
}

// thinkingContent returns a content that begins with reasoning.
func thinkingContent(thinking string, parts []chatPart) any {
	list := []any{chatThinking{"thinking", []chatPart{{Type: "text", Text: thinking}}}}
	for _, p := range parts {
		list = append(list, p)
	}
	return list
}

func chatMedia(m *wire.Media) chatPart {
	if m.Image() {
		return chatPart{Type: "image_url", ImageURL: &chatImage{URL: m.Reference(), Detail: m.Detail}}
	}
	return chatPart{Type: "file", File: &chatFile{Filename: "file.pdf", FileData: m.Reference()}}
}

// strict reports whether OpenAI's strict mode supports a schema: objects are closed, and all members are required.
func strict(schema json.RawMessage) bool {
	var v any
	return json.Unmarshal(schema, &v) == nil && closed(v)
}

func closed(v any) bool {
	switch v := v.(type) {
	case []any:
		for _, w := range v {
			if !closed(w) {
				return false
			}
		}
	case object:
		if properties, ok := v["properties"].(object); ok {
			required, _ := v["required"].([]any)
			if open, ok := v["additionalProperties"].(bool); !ok || open || len(required) != len(properties) {
				return false
			}
		}
		for _, w := range v {
			if !closed(w) {
				return false
			}
		}
	}
	return true
}
