package anthropic

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
)

// params asks for an answer with what stays the same from turn to turn marked to be cached: the tools, the system's
// text, and the conversation so far.
func (m *Model) params(e *wire.Endpoint, req llm.Request) (anthropic.MessageNewParams, error) {
	o := req.Options
	p := anthropic.MessageNewParams{Model: e.Model, MaxTokens: int64(m.cfg.MaxTokens), StopSequences: o.StopWords}
	if o.MaxTokens > 0 {
		p.MaxTokens = int64(o.MaxTokens)
	}
	if o.Temperature != 0 {
		p.Temperature = param.NewOpt(o.Temperature)
	}
	if o.TopP != 0 {
		p.TopP = param.NewOpt(o.TopP)
	}
	if o.TopK != 0 {
		p.TopK = param.NewOpt(int64(o.TopK))
	}
	m.think(&p)
	if err := tools(e, o, &p); err != nil {
		return p, err
	}
	if len(req.Schema) > 0 {
		var schema any
		if err := json.Unmarshal(req.Schema, &schema); err != nil {
			return p, e.Refuse("the schema of the answer: %s", err)
		}
		closeObjects(schema)
		p.OutputConfig.Format.Schema, _ = schema.(map[string]any)
	}
	for _, message := range req.Messages {
		if err := add(e, &p, message); err != nil {
			return p, err
		}
	}
	if n := len(p.System); n > 0 {
		p.System[n-1].CacheControl = anthropic.NewCacheControlEphemeralParam()
	}
	if n := len(p.Messages); n > 0 {
		cacheLast(p.Messages[n-1].Content)
	}
	return p, nil
}

func (m *Model) think(p *anthropic.MessageNewParams) {
	if m.cfg.Reasoning == "" {
		return
	}
	p.Temperature, p.TopK = param.Opt[float64]{}, param.Opt[int64]{} // may not be set beside thought
	tokens, err := strconv.ParseInt(m.cfg.Reasoning, 10, 64)
	if err != nil {
		p.Thinking.OfAdaptive = &anthropic.ThinkingConfigAdaptiveParam{Display: anthropic.ThinkingConfigAdaptiveDisplaySummarized}
		p.OutputConfig.Effort = anthropic.OutputConfigEffort(m.cfg.Reasoning)
		return
	}
	p.Thinking.OfEnabled = &anthropic.ThinkingConfigEnabledParam{BudgetTokens: tokens}
	if p.MaxTokens <= tokens {
		p.MaxTokens += tokens // what is thought counts as answer
	}
}

func tools(e *wire.Endpoint, o llms.CallOptions, p *anthropic.MessageNewParams) error {
	for _, f := range wire.Functions(o) {
		parameters, err := e.Parameters(f)
		if err != nil {
			return err
		}
		tool := &anthropic.ToolParam{Name: f.Name, InputSchema: param.Override[anthropic.ToolInputSchemaParam](parameters)}
		if f.Description != "" {
			tool.Description = param.NewOpt(f.Description)
		}
		if f.Strict {
			tool.Strict = param.NewOpt(true)
		}
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: tool})
	}
	if len(p.Tools) == 0 {
		return nil
	}
	p.Tools[len(p.Tools)-1].OfTool.CacheControl = anthropic.NewCacheControlEphemeralParam()
	switch mode, name := wire.Choice(o); {
	case name != "":
		p.ToolChoice.OfTool = &anthropic.ToolChoiceToolParam{Name: name}
	case mode == "required":
		p.ToolChoice.OfAny = &anthropic.ToolChoiceAnyParam{}
	case mode == "none":
		p.ToolChoice.OfNone = &anthropic.ToolChoiceNoneParam{}
	}
	return nil
}

// add adds a message: to the system's text, or to the last message where that has the same role, for Anthropic wants
// them to take turns. Results come before all else of theirs.
func add(e *wire.Endpoint, p *anthropic.MessageNewParams, message llms.MessageContent) error {
	var thoughts, results, blocks []anthropic.ContentBlockParamUnion
	for _, part := range message.Parts {
		if data, ok := e.Mine(part); ok {
			thoughts = append(thoughts, param.Override[anthropic.ContentBlockParamUnion](data))
			continue
		}
		switch part := part.(type) {
		case llms.TextContent:
			if strings.TrimSpace(part.Text) == "" {
				continue // is refused
			}
			if message.Role == llms.ChatMessageTypeSystem {
				p.System = append(p.System, anthropic.TextBlockParam{Text: part.Text})
				continue
			}
			blocks = append(blocks, anthropic.NewTextBlock(part.Text))
			continue
		case llms.ToolCall:
			name, arguments := wire.Arguments(part)
			blocks = append(blocks, anthropic.NewToolUseBlock(part.ID, arguments, name))
			continue
		case llms.ToolCallResponse:
			results = append(results, result(part))
			continue
		}
		media, ok, err := e.MediaOf(part)
		if err != nil {
			return err
		}
		if !ok {
			continue // carried for another provider
		}
		b, err := mediaBlock(e, media)
		if err != nil {
			return err
		}
		blocks = append(blocks, b)
	}
	role := anthropic.MessageParamRoleUser
	if message.Role == llms.ChatMessageTypeAI {
		role = anthropic.MessageParamRoleAssistant
	}
	blocks = append(thoughts, blocks...)
	if len(results)+len(blocks) == 0 {
		return nil
	}
	if n := len(p.Messages); n == 0 || p.Messages[n-1].Role != role {
		p.Messages = append(p.Messages, anthropic.MessageParam{Role: role})
	}
	last := &p.Messages[len(p.Messages)-1]
	first := slices.IndexFunc(last.Content, func(b anthropic.ContentBlockParamUnion) bool { return b.OfToolResult == nil })
	if first < 0 {
		first = len(last.Content)
	}
	last.Content = slices.Concat(last.Content[:first], results, last.Content[first:], blocks)
	return nil
}

func result(r llms.ToolCallResponse) anthropic.ContentBlockParamUnion {
	block := &anthropic.ToolResultBlockParam{ToolUseID: r.ToolCallID}
	if r.Content != "" {
		block.Content = []anthropic.ToolResultBlockParamContentUnion{{OfText: &anthropic.TextBlockParam{Text: r.Content}}}
	}
	return anthropic.ContentBlockParamUnion{OfToolResult: block}
}

func mediaBlock(e *wire.Endpoint, m wire.Media) (anthropic.ContentBlockParamUnion, error) {
	if text, ok := m.Text(); ok {
		return anthropic.NewTextBlock(text), nil
	}
	switch {
	case m.URL != "":
		return anthropic.NewImageBlock(anthropic.URLImageSourceParam{URL: m.URL}), nil
	case m.Image():
		return anthropic.NewImageBlockBase64(m.Type, m.Base64()), nil
	case m.Type == "application/pdf":
		return anthropic.NewDocumentBlock(anthropic.Base64PDFSourceParam{Data: m.Base64()}), nil
	}
	return anthropic.ContentBlockParamUnion{}, e.Refuse("cannot read %s", m.Type)
}

// cacheLast marks the last of blocks that can be marked: thoughts cannot.
func cacheLast(blocks []anthropic.ContentBlockParamUnion) {
	for _, block := range slices.Backward(blocks) {
		if mark := block.GetCacheControl(); mark != nil {
			*mark = anthropic.NewCacheControlEphemeralParam()
			return
		}
	}
}

// closeObjects says of every object in a schema that it has no other members, which Anthropic wants to be told.
func closeObjects(v any) {
	switch v := v.(type) {
	case []any:
		for _, w := range v {
			closeObjects(w)
		}
	case map[string]any:
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
