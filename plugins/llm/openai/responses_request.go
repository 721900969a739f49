package openai

import (
	"encoding/json"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
)

type responsesRequest struct {
	Model           string   `json:"model"`
	Input           []any    `json:"input"`
	Stream          bool     `json:"stream"`
	Store           bool     `json:"store"`
	MaxOutputTokens *int     `json:"max_output_tokens,omitempty"`
	Temperature     *float64 `json:"temperature,omitempty"`
	TopP            *float64 `json:"top_p,omitempty"`
	Reasoning       object   `json:"reasoning,omitempty"`
	Include         []string `json:"include,omitempty"`
	Text            object   `json:"text,omitempty"`
	Tools           []object `json:"tools,omitempty"`
	ToolChoice      any      `json:"tool_choice,omitempty"`
}

// responsesRequest builds a request for an answer that OpenAI does not store: each request has the whole conversation
// with its encrypted reasoning.
func (m *Model) responsesRequest(e *wire.Endpoint, req llm.Request) (*responsesRequest, error) {
	o := req.Options
	r := &responsesRequest{
		Model: e.Model, Stream: true, MaxOutputTokens: wire.Number(o.MaxTokens),
		Temperature: wire.Number(o.Temperature), TopP: wire.Number(o.TopP),
	}
	if m.cfg.Reasoning != "" {
		r.Reasoning = object{"effort": m.cfg.Reasoning, "summary": "auto"}
		r.Include = []string{"reasoning.encrypted_content"}
	}
	for _, f := range wire.Functions(o) {
		parameters, err := e.Parameters(f)
		if err != nil {
			return nil, err
		}
		tool := object{"type": "function", "name": f.Name, "parameters": parameters, "strict": f.Strict}
		if f.Description != "" {
			tool["description"] = f.Description
		}
		r.Tools = append(r.Tools, tool)
	}
	if mode, name := wire.Choice(o); len(r.Tools) > 0 && name != "" {
		r.ToolChoice = object{"type": "function", "name": name}
	} else if len(r.Tools) > 0 && mode != "" {
		r.ToolChoice = mode
	}
	switch {
	case len(req.Schema) > 0:
		r.Text = object{"format": object{"type": "json_schema", "name": "answer", "schema": req.Schema, "strict": strict(req.Schema)}}
	case o.JSONMode:
		r.Text = object{"format": object{"type": "json_object"}}
	}
	for _, message := range req.Messages {
		items, err := responsesItems(e, message)
		if err != nil {
			return nil, err
		}
		r.Input = append(r.Input, items...)
	}
	return r, nil
}

// responsesItems converts a message into items: reasoning, texts, calls and results are one each.
func responsesItems(e *wire.Endpoint, message llms.MessageContent) ([]any, error) {
	var thoughts, items []any
	var content []object
	var text strings.Builder
	for _, p := range message.Parts {
		if data, ok := e.Mine(p); ok {
			var kind struct{ Type string }
			if json.Unmarshal(data, &kind) == nil && kind.Type == "reasoning" {
				thoughts = append(thoughts, data)
			}
			continue
		}
		switch p := p.(type) {
		case llms.TextContent:
			text.WriteString(p.Text)
			content = append(content, object{"type": "input_text", "text": p.Text})
			continue
		case llms.ToolCall:
			name, arguments := wire.Arguments(p)
			items = append(items, object{"type": "function_call", "call_id": p.ID, "name": name, "arguments": string(arguments)})
			continue
		case llms.ToolCallResponse:
			items = append(items, object{"type": "function_call_output", "call_id": p.ToolCallID, "output": p.Content})
			continue
		}
		media, ok, err := e.MediaOf(p)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue // belongs to another provider
		}
		part, err := responsesMedia(e, media)
		if err != nil {
			return nil, err
		}
		content = append(content, part)
	}
	if message.Role == llms.ChatMessageTypeAI {
		if text.Len() > 0 {
			thoughts = append(thoughts, object{"role": "assistant", "content": text.String()})
		}
		return append(thoughts, items...), nil
	}
	if len(content) > 0 {
		items = append(items, object{"role": roleOf(message.Role), "content": content})
	}
	return items, nil
}

func responsesMedia(e *wire.Endpoint, m wire.Media) (object, error) {
	if text, ok := m.Text(); ok {
		return object{"type": "input_text", "text": text}, nil
	}
	if m.Image() {
		return object{"type": "input_image", "detail": "auto", "image_url": m.Reference()}, nil
	}
	if m.Type == "application/pdf" {
		return object{"type": "input_file", "filename": "file.pdf", "file_data": m.Reference()}, nil
	}
	return nil, e.Refuse("cannot read %s", m.Type)
}
