package anthropic

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
)

type request struct {
	Model         string    `json:"model"`
	MaxTokens     int       `json:"max_tokens"`
	System        []object  `json:"system,omitempty"`
	Messages      []message `json:"messages"`
	Stream        bool      `json:"stream"`
	Tools         []object  `json:"tools,omitempty"`
	ToolChoice    object    `json:"tool_choice,omitempty"`
	Thinking      object    `json:"thinking,omitempty"`
	OutputConfig  object    `json:"output_config,omitempty"`
	StopSequences []string  `json:"stop_sequences,omitempty"`
	Temperature   *float64  `json:"temperature,omitempty"`
	TopP          *float64  `json:"top_p,omitempty"`
	TopK          *int      `json:"top_k,omitempty"`
}

type message struct {
	Role    string `json:"role"`
	Content []any  `json:"content"` // objects, and reasoning as received
}

type object = map[string]any

// request builds a request that marks the stable parts for caching: the tools, the system's text, and the conversation so
// far.
func (m *Model) request(e *wire.Endpoint, req llm.Request) (*request, error) {
	o := req.Options
	r := &request{
		Model: e.Model, MaxTokens: m.cfg.MaxTokens, Stream: true, StopSequences: o.StopWords, OutputConfig: object{},
		Temperature: wire.Number(o.Temperature), TopP: wire.Number(o.TopP), TopK: wire.Number(o.TopK),
	}
	if o.MaxTokens > 0 {
		r.MaxTokens = o.MaxTokens
	}
	m.think(r)
	if err := tools(e, o, r); err != nil {
		return nil, err
	}
	if len(req.Schema) > 0 {
		var schema any
		if err := json.Unmarshal(req.Schema, &schema); err != nil {
			return nil, e.Refuse("the schema of the answer: %s", err)
		}
		closeObjects(schema)
		r.OutputConfig["format"] = object{"type": "json_schema", "schema": schema}
	}
	for _, given := range req.Messages {
		if err := add(e, r, given); err != nil {
			return nil, err
		}
	}
	if n := len(r.System); n > 0 {
		r.System[n-1]["cache_control"] = object{"type": "ephemeral"}
	}
	if n := len(r.Messages); n > 0 {
		cacheLast(r.Messages[n-1].Content)
	}
	return r, nil
}

func (m *Model) think(r *request) {
	if m.cfg.Reasoning == "" {
		return
	}
	r.Temperature, r.TopK = nil, nil // not allowed together with reasoning
	tokens, err := strconv.Atoi(m.cfg.Reasoning)
	if err != nil {
		r.Thinking = object{"type": "adaptive", "display": "summarized"}
		r.OutputConfig["effort"] = m.cfg.Reasoning
		return
	}
	r.Thinking = object{"type": "enabled", "budget_tokens": tokens}
	if r.MaxTokens <= tokens {
		r.MaxTokens += tokens // reasoning counts as answer
	}
}

func tools(e *wire.Endpoint, o llms.CallOptions, r *request) error {
	for _, f := range wire.Functions(o) {
		parameters, err := e.Parameters(f)
		if err != nil {
			return err
		}
		tool := object{"name": f.Name, "input_schema": parameters}
		if f.Description != "" {
			tool["description"] = f.Description
		}
		if f.Strict {
			tool["strict"] = true
		}
		r.Tools = append(r.Tools, tool)
	}
	if len(r.Tools) == 0 {
		return nil
	}
	r.Tools[len(r.Tools)-1]["cache_control"] = object{"type": "ephemeral"}
	switch mode, name := wire.Choice(o); {
	case name != "":
		r.ToolChoice = object{"type": "tool", "name": name}
	case mode == "required":
		r.ToolChoice = object{"type": "any"}
	case mode == "none":
		r.ToolChoice = object{"type": "none"}
	}
	return nil
}

// add adds a message: to the system's text, or to the last message if it has the same role, because Anthropic requires
// alternating roles. Results precede all other parts.
func add(e *wire.Endpoint, r *request, given llms.MessageContent) error {
	var thoughts, results, blocks []any
	for _, part := range given.Parts {
		if data, ok := e.Mine(part); ok {
			thoughts = append(thoughts, data)
			continue
		}
		switch part := part.(type) {
		case llms.TextContent:
			if strings.TrimSpace(part.Text) == "" {
				continue // would be refused
			}
			text := object{"type": "text", "text": part.Text}
			if given.Role == llms.ChatMessageTypeSystem {
				r.System = append(r.System, text)
				continue
			}
			blocks = append(blocks, text)
			continue
		case llms.ToolCall:
			name, arguments := wire.Arguments(part)
			blocks = append(blocks, object{"type": "tool_use", "id": part.ID, "name": name, "input": arguments})
			continue
		case llms.ToolCallResponse:
			result := object{"type": "tool_result", "tool_use_id": part.ToolCallID}
			if part.Content != "" {
				result["content"] = []object{{"type": "text", "text": part.Content}}
			}
			results = append(results, result)
			continue
		}
		media, ok, err := e.MediaOf(part)
		if err != nil {
			return err
		}
		if !ok {
			continue // belongs to another provider
		}
		block, err := mediaBlock(e, media)
		if err != nil {
			return err
		}
		blocks = append(blocks, block)
	}
	role := "user"
	if given.Role == llms.ChatMessageTypeAI {
		role = "assistant"
	}
	blocks = append(thoughts, blocks...)
	if len(results)+len(blocks) == 0 {
		return nil
	}
	if n := len(r.Messages); n == 0 || r.Messages[n-1].Role != role {
		r.Messages = append(r.Messages, message{Role: role})
	}
	last := &r.Messages[len(r.Messages)-1]
	first := slices.IndexFunc(last.Content, func(b any) bool {
		block, ok := b.(object)
		return !ok || block["type"] != "tool_result"
	})
	if first < 0 {
		first = len(last.Content)
	}
	last.Content = slices.Concat(last.Content[:first], results, last.Content[first:], blocks)
	return nil
}

func mediaBlock(e *wire.Endpoint, m wire.Media) (object, error) {
	if text, ok := m.Text(); ok {
		return object{"type": "text", "text": text}, nil
	}
	bytes := func() object { return object{"type": "base64", "media_type": m.Type, "data": m.Base64()} }
	switch {
	case m.URL != "":
		return object{"type": "image", "source": object{"type": "url", "url": m.URL}}, nil
	case m.Image():
		return object{"type": "image", "source": bytes()}, nil
	case m.Type == "application/pdf":
		return object{"type": "document", "source": bytes()}, nil
	}
	return nil, e.Refuse("cannot read %s", m.Type)
}

// cacheLast marks the last block that can be marked; reasoning cannot.
func cacheLast(blocks []any) {
	for _, b := range slices.Backward(blocks) {
		if block, ok := b.(object); ok {
			block["cache_control"] = object{"type": "ephemeral"}
			return
		}
	}
}

// closeObjects forbids additional properties in all objects of a schema, as Anthropic requires.
func closeObjects(v any) {
	switch v := v.(type) {
	case []any:
		for _, w := range v {
			closeObjects(w)
		}
	case object:
		if _, ok := v["properties"]; ok {
			if _, said := v["additionalProperties"]; !said {
				v["additionalProperties"] = false
			}
		}
		for _, w := range v {
			closeObjects(w)
		}
	}
}

// Takes reports whether the API supports a part of a message.
func (m *Model) Takes(mediaType string, url bool) bool {
	return url || wire.Takes(mediaType, "application/pdf")
}

// Reads reports that the model reads PDF.
func (m *Model) Reads(mediaType string) bool { return mediaType == "application/pdf" }
