package openai

import (
	"encoding/json"
	"strings"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
)

// responsesParams asks for an answer that OpenAI does not keep: we send the conversation each time, and with it what
// the model thought, encrypted.
func (m *Model) responsesParams(e *wire.Endpoint, req llm.Request) (responses.ResponseNewParams, error) {
	o := req.Options
	p := responses.ResponseNewParams{Model: e.Model, Store: param.NewOpt(false)}
	if o.MaxTokens > 0 {
		p.MaxOutputTokens = param.NewOpt(int64(o.MaxTokens))
	}
	if o.Temperature != 0 {
		p.Temperature = param.NewOpt(o.Temperature)
	}
	if o.TopP != 0 {
		p.TopP = param.NewOpt(o.TopP)
	}
	if m.cfg.Reasoning != "" {
		p.Reasoning = shared.ReasoningParam{Effort: shared.ReasoningEffort(m.cfg.Reasoning), Summary: shared.ReasoningSummaryAuto}
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	if err := responsesTools(e, o, &p); err != nil {
		return p, err
	}
	if len(req.Schema) > 0 {
		var schema map[string]any
		if err := json.Unmarshal(req.Schema, &schema); err != nil {
			return p, e.Refuse("the schema of the answer: %s", err)
		}
		p.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{
			Name: "answer", Schema: schema, Strict: param.NewOpt(strict(req.Schema)),
		}
	} else if o.JSONMode {
		p.Text.Format.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
	}
	for _, message := range req.Messages {
		items, err := responsesItems(e, message)
		if err != nil {
			return p, err
		}
		p.Input.OfInputItemList = append(p.Input.OfInputItemList, items...)
	}
	return p, nil
}

func responsesTools(e *wire.Endpoint, o llms.CallOptions, p *responses.ResponseNewParams) error {
	for _, f := range wire.Functions(o) {
		parameters, err := e.Parameters(f)
		if err != nil {
			return err
		}
		tool := &responses.FunctionToolParam{Name: f.Name, Strict: param.NewOpt(f.Strict)}
		if err := json.Unmarshal(parameters, &tool.Parameters); err != nil {
			return e.Refuse("the parameters of tool %s: %s", f.Name, err)
		}
		if f.Description != "" {
			tool.Description = param.NewOpt(f.Description)
		}
		p.Tools = append(p.Tools, responses.ToolUnionParam{OfFunction: tool})
	}
	if len(p.Tools) == 0 {
		return nil
	}
	if mode, name := wire.Choice(o); name != "" {
		p.ToolChoice.OfFunctionTool = &responses.ToolChoiceFunctionParam{Name: name}
	} else if mode != "" {
		p.ToolChoice.OfToolChoiceMode = param.NewOpt(responses.ToolChoiceOptions(mode))
	}
	return nil
}

// responsesItems returns a message as the items that responses have for it: thoughts, text, calls and results are each
// one.
func responsesItems(e *wire.Endpoint, message llms.MessageContent) (responses.ResponseInputParam, error) {
	var thoughts, items responses.ResponseInputParam
	var content responses.ResponseInputMessageContentListParam
	var text strings.Builder
	for _, p := range message.Parts {
		if data, ok := e.Mine(p); ok {
			var kind struct{ Type string }
			if json.Unmarshal(data, &kind) == nil && kind.Type == "reasoning" {
				thoughts = append(thoughts, param.Override[responses.ResponseInputItemUnionParam](data))
			}
			continue
		}
		switch p := p.(type) {
		case llms.TextContent:
			text.WriteString(p.Text)
			content = append(content, responses.ResponseInputContentParamOfInputText(p.Text))
			continue
		case llms.ToolCall:
			name, arguments := wire.Arguments(p)
			items = append(items, responses.ResponseInputItemParamOfFunctionCall(string(arguments), p.ID, name))
			continue
		case llms.ToolCallResponse:
			items = append(items, responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{
				CallID: param.NewOpt(p.ToolCallID),
				Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: param.NewOpt(p.Content)},
			}})
			continue
		}
		media, ok, err := e.MediaOf(p)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue // carried for another provider
		}
		part, err := responsesMedia(e, media)
		if err != nil {
			return nil, err
		}
		content = append(content, part)
	}
	if message.Role == llms.ChatMessageTypeAI {
		if text.Len() > 0 {
			thoughts = append(thoughts, responses.ResponseInputItemParamOfMessage(text.String(), responses.EasyInputMessageRoleAssistant))
		}
		return append(thoughts, items...), nil
	}
	if len(content) > 0 {
		role := responses.EasyInputMessageRoleUser
		if message.Role == llms.ChatMessageTypeSystem {
			role = responses.EasyInputMessageRoleSystem
		}
		items = append(items, responses.ResponseInputItemParamOfMessage(content, role))
	}
	return items, nil
}

func responsesMedia(e *wire.Endpoint, m wire.Media) (responses.ResponseInputContentUnionParam, error) {
	var none responses.ResponseInputContentUnionParam
	if text, ok := m.Text(); ok {
		return responses.ResponseInputContentParamOfInputText(text), nil
	}
	if m.Image() {
		return responses.ResponseInputContentUnionParam{OfInputImage: &responses.ResponseInputImageParam{
			Detail: responses.ResponseInputImageDetailAuto, ImageURL: param.NewOpt(m.Reference()),
		}}, nil
	}
	if m.Type == "application/pdf" {
		return responses.ResponseInputContentUnionParam{OfInputFile: &responses.ResponseInputFileParam{
			Filename: param.NewOpt("file.pdf"), FileData: param.NewOpt(m.Reference()),
		}}, nil
	}
	return none, e.Refuse("cannot read %s", m.Type)
}
