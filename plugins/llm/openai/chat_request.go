package openai

import (
	"encoding/json"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
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
	Role       string     `json:"role"`
	Content    any        `json:"content"` // a string, []chatPart, or nil with calls
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	chatCarried
}

// chatCarried is the reasoning that some servers require with the calls that followed it.
type chatCarried struct {
	ReasoningContent string `json:"reasoning_content,omitempty"`
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
	ID       string            `json:"id"`
	Type     string            `json:"type"`
	Function llms.FunctionCall `json:"function"`
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

func (m *Model) chatRequest(e *wire.Endpoint, req llm.Request) (*chatRequest, error) {
	o := req.Options
	r := &chatRequest{
		Model: e.Model, Stream: true, StreamOptions: &streamOptions{IncludeUsage: true},
		Temperature: wire.Number(o.Temperature), TopP: wire.Number(o.TopP), Seed: wire.Number(o.Seed), Stop: o.StopWords,
		FrequencyPenalty: wire.Number(o.FrequencyPenalty), PresencePenalty: wire.Number(o.PresencePenalty),
		ReasoningEffort: m.cfg.Reasoning,
	}
	if m.own {
		r.MaxCompletionTokens = wire.Number(o.MaxTokens)
	} else {
		r.MaxTokens = wire.Number(o.MaxTokens)
	}
	for _, f := range wire.Functions(o) {
		parameters, err := e.Parameters(f)
		if err != nil {
			return nil, err
		}
		r.Tools = append(r.Tools, chatTool{Type: "function", Function: chatFunction{f.Name, f.Description, parameters, f.Strict}})
	}
	if mode, name := wire.Choice(o); len(r.Tools) > 0 && name != "" {
		r.ToolChoice = object{"type": "function", "function": object{"name": name}}
	} else if len(r.Tools) > 0 && mode != "" {
		r.ToolChoice = mode
	}
	switch {
	case len(req.Schema) > 0:
		r.ResponseFormat = object{"type": "json_schema", "json_schema": object{
			"name": "answer", "schema": req.Schema, "strict": strict(req.Schema),
		}}
	case o.JSONMode:
		r.ResponseFormat = object{"type": "json_object"}
	}
	for _, message := range req.Messages {
		list, err := chatMessages(e, message)
		if err != nil {
			return nil, err
		}
		r.Messages = append(r.Messages, list...)
	}
	return r, nil
}

// chatMessages converts a message; each result of a tool is a separate message.
func chatMessages(e *wire.Endpoint, message llms.MessageContent) ([]chatMessage, error) {
	msg := chatMessage{Role: roleOf(message.Role)}
	var parts []chatPart
	var results []chatMessage
	for _, p := range message.Parts {
		if data, ok := e.Mine(p); ok {
			_ = json.Unmarshal(data, &msg.chatCarried) // ignores data carried by responses
			continue
		}
		switch p := p.(type) {
		case llms.TextContent:
			parts = append(parts, chatPart{Type: "text", Text: p.Text})
			continue
		case llms.ToolCall:
			name, arguments := wire.Arguments(p)
			msg.ToolCalls = append(msg.ToolCalls, chatCall{p.ID, "function", llms.FunctionCall{Name: name, Arguments: string(arguments)}})
			continue
		case llms.ToolCallResponse:
			results = append(results, chatMessage{Role: "tool", ToolCallID: p.ToolCallID, Content: p.Content})
			continue
		}
		media, ok, err := e.MediaOf(p)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue // belongs to another provider
		}
		part, err := chatMedia(e, media, p)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 && len(msg.ToolCalls) == 0 {
		return results, nil
	}
	if text, plain := join(parts); plain {
		msg.Content = text
	} else if len(parts) > 0 {
		msg.Content = parts
	}
	return append(results, msg), nil
}

func chatMedia(e *wire.Endpoint, m wire.Media, p llms.ContentPart) (chatPart, error) {
	if text, ok := m.Text(); ok {
		return chatPart{Type: "text", Text: text}, nil
	}
	if m.Image() {
		image := &chatImage{URL: m.Reference()}
		if given, ok := p.(llms.ImageURLContent); ok {
			image.Detail = given.Detail
		}
		return chatPart{Type: "image_url", ImageURL: image}, nil
	}
	if m.Type == "application/pdf" {
		return chatPart{Type: "file", File: &chatFile{Filename: "file.pdf", FileData: m.Reference()}}, nil
	}
	return chatPart{}, e.Refuse("cannot read %s", m.Type)
}

// join returns the text of parts if all are text: many servers accept only a string.
func join(parts []chatPart) (text string, plain bool) {
	for i, p := range parts {
		if p.Type != "text" {
			return "", false
		}
		if i > 0 {
			text += "\n"
		}
		text += p.Text
	}
	return text, len(parts) > 0
}

func roleOf(r llms.ChatMessageType) string {
	switch r {
	case llms.ChatMessageTypeSystem:
		return "system"
	case llms.ChatMessageTypeAI:
		return "assistant"
	case llms.ChatMessageTypeTool, llms.ChatMessageTypeFunction:
		return "tool"
	}
	return "user"
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
