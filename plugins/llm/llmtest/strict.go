package llmtest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/batonrun/baton/plugins/llm"
)

// Rule is a check of a server. It returns the refusal of a request, in the server's words, or nil.
type Rule func(*Request) *llm.Error

// Strict answers requests that break no rule, and refuses others as the server does.
func Strict(answer func(*Request) Script, rules ...Rule) func(*Request) Script {
	return func(r *Request) Script {
		for _, rule := range rules {
			if err := rule(r); err != nil {
				return Script{Fail: err}
			}
		}
		return answer(r)
	}
}

func refuse(format string, args ...any) *llm.Error {
	return &llm.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...)}
}

// chatBody is a request of chat completions.
type chatBody struct {
	Messages []chatBodyMessage `json:"messages"`
	Tools    []struct {
		Function bodyTool `json:"function"`
	} `json:"tools"`
}

type chatBodyMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls []struct {
		ID       string `json:"id"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tool_calls"`
	ToolCallID       string `json:"tool_call_id"`
	ReasoningContent string `json:"reasoning_content"`
}

type bodyTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

func (m *chatBodyMessage) blank() bool {
	text := strings.TrimSpace(string(m.Content))
	return text == "" || text == "null" || text == `""` || text == "[]"
}

func chatOf(r *Request) (b chatBody) {
	_ = json.Unmarshal(r.Body, &b) // the rules refuse what is not there
	return b
}

var nine = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// Mistral refuses what Mistral's API refuses.
func Mistral(r *Request) *llm.Error {
	list := chatOf(r).Messages
	for i, m := range list {
		for _, c := range m.ToolCalls {
			if !nine.MatchString(c.ID) {
				return refuse("Tool call id was %s but must be a-z, A-Z, 0-9, with a length of 9.", c.ID)
			}
		}
		if i > 0 && m.Role == "user" && list[i-1].Role == "tool" {
			return refuse("Unexpected role 'user' after role 'tool'")
		}
	}
	if n := len(list); n == 0 || list[n-1].Role != "user" && list[n-1].Role != "tool" {
		return refuse("Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant")
	}
	return nil
}

// MistralTemplate refuses what the template of Mistral's older models refuses.
func MistralTemplate(r *Request) *llm.Error {
	list := slices.DeleteFunc(chatOf(r).Messages, func(m chatBodyMessage) bool {
		return m.Role == "tool" || len(m.ToolCalls) > 0 || m.Role == "system"
	})
	for i, m := range list {
		if (m.Role == "user") != (i%2 == 0) {
			return refuse("After the optional system message, conversation roles must alternate user/assistant/user/assistant/...")
		}
	}
	return nil
}

// Gemma refuses what Gemma's template refuses.
func Gemma(r *Request) *llm.Error {
	for i, m := range chatOf(r).Messages {
		if i == 0 && m.Role == "system" {
			return refuse("System role not supported")
		}
		if (m.Role == "user") != (i%2 == 0) {
			return refuse("Conversation roles must alternate user/assistant/user/assistant/...")
		}
	}
	return nil
}

// LMStudio refuses what LM Studio and older servers of llama.cpp refuse.
func LMStudio(r *Request) *llm.Error {
	for _, m := range chatOf(r).Messages {
		if len(m.Content) == 0 || m.Content[0] != '"' && m.Content[0] != '[' {
			return refuse("Invalid 'content': 'content' field must be a string or an array of objects.")
		}
	}
	return nil
}

// Hunyuan refuses messages with an empty content, as Tencent's API does.
func Hunyuan(r *Request) *llm.Error {
	for _, m := range chatOf(r).Messages {
		if m.Content != nil && m.blank() {
			return refuse("messages 中 content 不能为空")
		}
	}
	return nil
}

// Kimi refuses calls without their reasoning, as Moonshot's API does.
func Kimi(r *Request) *llm.Error {
	for i, m := range chatOf(r).Messages {
		if len(m.ToolCalls) > 0 && m.ReasoningContent == "" {
			return refuse("thinking is enabled but reasoning_content is missing in assistant tool call message at index %d", i)
		}
	}
	return nil
}

// DeepSeek refuses messages of a turn with calls without their reasoning, as DeepSeek's API does.
func DeepSeek(r *Request) *llm.Error {
	called, silent := false, false
	for _, m := range chatOf(r).Messages {
		switch m.Role {
		case "user":
			called, silent = false, false
		case "assistant":
			called = called || len(m.ToolCalls) > 0
			silent = silent || m.ReasoningContent == ""
		}
		if called && silent {
			return refuse("The `reasoning_content` in the thinking mode must be passed back to the API.")
		}
	}
	return nil
}

var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// OpenAI refuses what the chat completions of OpenAI refuse.
func OpenAI(r *Request) *llm.Error {
	b := chatOf(r)
	if b.Messages == nil {
		return refuse("Invalid type for 'messages': expected an array of objects, but got null instead.")
	}
	var open []string
	for i, m := range b.Messages {
		if m.Role == "tool" {
			at := slices.Index(open, m.ToolCallID)
			if at < 0 {
				return refuse("Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.") //nolint:misspell // their words
			}
			open = slices.Delete(open, at, at+1)
			continue
		}
		if len(open) > 0 {
			return refuse("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(open, ", "))
		}
		for j, c := range m.ToolCalls {
			if len(c.ID) > 40 {
				return refuse("Invalid 'messages[%d].tool_calls[%d].id': string too long. Expected a string with maximum length 40, but got a string with length %d instead.", i, j, len(c.ID))
			}
			open = append(open, c.ID)
		}
		if m.blank() && len(m.ToolCalls) == 0 {
			return refuse("Invalid value for 'content': expected a string, got null.")
		}
		if err := openaiImages(m.Content); err != nil {
			return err
		}
	}
	if len(open) > 0 {
		return refuse("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(open, ", "))
	}
	var tools []bodyTool
	for _, t := range b.Tools {
		tools = append(tools, t.Function)
	}
	return openaiTools(tools)
}

func openaiImages(content json.RawMessage) *llm.Error {
	var parts []struct {
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	_ = json.Unmarshal(content, &parts) // a string has no images
	for _, p := range parts {
		if head, data, ok := strings.Cut(p.ImageURL.URL, ";base64,"); ok && !imageFits(strings.TrimPrefix(head, "data:"), data, "image/gif") {
			return refuse("You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].")
		}
	}
	return nil
}

// imageFits reports whether data is an image of its type, one of PNG, JPEG, WebP and others.
func imageFits(mediaType, data string, others ...string) bool {
	raw, err := base64.StdEncoding.DecodeString(data)
	magic := map[string]string{"image/png": "\x89PNG\r\n\x1a\n", "image/jpeg": "\xff\xd8\xff", "image/gif": "GIF8", "image/webp": "RIFF"}[mediaType]
	known := slices.Contains(append(others, "image/png", "image/jpeg", "image/webp"), mediaType)
	return err == nil && known && magic != "" && bytes.HasPrefix(raw, []byte(magic)) && len(raw) > 12
}

func openaiTools(tools []bodyTool) *llm.Error {
	if len(tools) > 128 {
		return refuse("Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length %d instead.", len(tools))
	}
	for i, t := range tools {
		if !functionName.MatchString(t.Name) {
			return refuse("Invalid 'tools[%d].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", i)
		}
		s := schemaOf(t.Parameters)
		if s["type"] != "object" || root(s, "oneOf", "anyOf", "allOf", "enum", "not") {
			return refuse("Invalid schema for function '%s': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.", t.Name)
		}
		if s["properties"] == nil {
			return refuse("Invalid schema for function '%s': In context=(), object schema missing properties.", t.Name)
		}
		said := oddity(s, "", func(s map[string]any, at string) string {
			if itemless(s) {
				return "In context=('" + strings.ReplaceAll(strings.TrimPrefix(at, "."), ".", "', '") + "'), array schema missing items."
			}
			return invalid(s)
		})
		if said != "" {
			return refuse("Invalid schema for function '%s': %s", t.Name, said)
		}
	}
	return nil
}

// responsesInput is an item of a request of responses.
type responsesInput struct {
	Type             string `json:"type"`
	ID               string `json:"id"`
	Role             string `json:"role"`
	CallID           string `json:"call_id"`
	EncryptedContent string `json:"encrypted_content"`
	Summary          []struct {
		Text string `json:"text"`
	} `json:"summary"`
}

// Responses refuses what the responses API of OpenAI refuses.
func Responses(r *Request) *llm.Error {
	var b struct {
		Input []responsesInput `json:"input"`
		Tools []bodyTool       `json:"tools"`
	}
	_ = json.Unmarshal(r.Body, &b)
	open := map[string]bool{}
	for i, item := range b.Input {
		switch item.Type {
		case "reasoning":
			var text strings.Builder
			for _, s := range item.Summary {
				text.WriteString(s.Text)
			}
			if item.EncryptedContent != signature(modelOf(r), item.ID, text.String()) {
				return refuse("The encrypted content for item %s could not be verified.", item.ID)
			}
			if i+1 == len(b.Input) || b.Input[i+1].Type != "function_call" && b.Input[i+1].Role != "assistant" {
				return refuse("Item '%s' of type 'reasoning' was provided without its required following item.", item.ID)
			}
		case "function_call":
			if len(item.CallID) > 64 {
				return refuse("Invalid 'input[%d].call_id': string too long. Expected a string with maximum length 64, but got a string with length %d instead.", i, len(item.CallID))
			}
			open[item.CallID] = true
		case "function_call_output":
			if !open[item.CallID] {
				return refuse("No tool call found for function call output with call_id %s.", item.CallID)
			}
			delete(open, item.CallID)
		}
	}
	for id := range open {
		return refuse("No tool output found for function call %s.", id)
	}
	return openaiTools(b.Tools)
}

// Azure refuses what Azure's OpenAI refuses in addition to OpenAI.
func Azure(r *Request) *llm.Error {
	if !strings.Contains(r.Path, "api-version=") && !strings.Contains(r.Path, "/openai/v1/") {
		return &llm.Error{Status: http.StatusNotFound, Code: "404", Message: "Resource not found"}
	}
	if strings.Contains(r.Path, "/responses") {
		return Responses(r)
	}
	for i, t := range chatOf(r).Tools {
		if n := len(t.Function.Description); n > 1024 {
			return refuse("Invalid 'tools[%d].function.description': string too long. Expected a string with maximum length 1024, but got a string with length %d instead.", i, n)
		}
	}
	return OpenAI(r)
}

type anthropicBlock struct {
	Type      string `json:"type"`
	Text      string `json:"text"`
	ID        string `json:"id"`
	Name      string `json:"name"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
	ToolUseID string `json:"tool_use_id"`
	Content   []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	} `json:"content"`
	Source struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	} `json:"source"`
}

type anthropicMessage struct {
	Role    string           `json:"role"`
	Content []anthropicBlock `json:"content"`
}

// anthropicTurn returns the index of the first message of the assistant after the last message of the user that has no results.
func anthropicTurn(list []anthropicMessage) int {
	for i, m := range slices.Backward(list) {
		if m.Role == "user" && !slices.ContainsFunc(m.Content, func(b anthropicBlock) bool { return b.Type == "tool_result" }) {
			return i + 1
		}
	}
	return 0
}

var (
	wordID      = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	propertyKey = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
)

// Anthropic refuses what Anthropic's API refuses.
func Anthropic(r *Request) *llm.Error {
	var b struct {
		Messages []anthropicMessage `json:"messages"`
		Thinking struct {
			Type string `json:"type"`
		} `json:"thinking"`
		Tools []struct {
			Name        string          `json:"name"`
			InputSchema json.RawMessage `json:"input_schema"`
		} `json:"tools"`
	}
	_ = json.Unmarshal(r.Body, &b)
	if len(b.Messages) == 0 {
		return refuse("messages: at least one message is required")
	}
	ids := map[string]bool{}
	var open []string
	for i, m := range b.Messages {
		switch {
		case i == 0 && m.Role != "user":
			return refuse(`messages: first message must use the "user" role`)
		case i > 0 && b.Messages[i-1].Role == m.Role:
			return refuse(`messages: roles must alternate between "user" and "assistant", but found multiple %q roles in a row`, m.Role)
		case len(m.Content) == 0:
			return refuse("messages.%d: all messages must have non-empty content except for the optional final assistant message", i)
		}
		asked := open
		open = nil
		var said []string
		for j, block := range m.Content {
			at := fmt.Sprintf("messages.%d.content.%d", i, j)
			said = append(said, block.Type+": "+block.Text+block.Thinking+block.Name)
			switch block.Type {
			case "thinking":
				if block.Signature != signature(modelOf(r), said...) {
					return refuse("%s: Invalid `signature` in `thinking` block", at)
				}
			case "text":
				if strings.TrimSpace(block.Text) == "" {
					return refuse("messages: text content blocks must be non-empty")
				}
			case "tool_use":
				if !wordID.MatchString(block.ID) {
					return refuse("%s.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", at)
				}
				if ids[block.ID] {
					return refuse("messages.%d.content.%d: `tool_use` ids must be unique", i, j)
				}
				ids[block.ID] = true
				open = append(open, block.ID)
			case "tool_result":
				k := slices.Index(asked, block.ToolUseID)
				if k < 0 {
					return refuse("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", at, block.ToolUseID)
				}
				asked = slices.Delete(asked, k, k+1)
				for _, c := range block.Content {
					if c.Text != nil && strings.TrimSpace(*c.Text) == "" {
						return refuse("messages: text content blocks must be non-empty")
					}
				}
			case "image":
				if block.Source.Type == "base64" && !imageFits(block.Source.MediaType, block.Source.Data, "image/gif") {
					return refuse("%s.image.source.base64: The image was specified using the %s media type, but the image does not match the provided media type", at, block.Source.MediaType)
				}
			}
		}
		if len(asked) > 0 {
			return refuse("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s.", i-1, strings.Join(asked, ", "))
		}
	}
	if i := anthropicTurn(b.Messages); b.Thinking.Type == "enabled" && i < len(b.Messages) {
		if kind := b.Messages[i].Content[0].Type; kind != "thinking" && kind != "redacted_thinking" {
			return refuse("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks).", i, kind) //nolint:misspell // their words
		}
	}
	for i, t := range b.Tools {
		s := schemaOf(t.InputSchema)
		switch {
		case s["type"] != "object":
			return refuse("tools.%d.custom.input_schema.type: Field required", i)
		case root(s, "oneOf", "anyOf", "allOf"):
			return refuse("tools.%d.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level", i)
		case !functionName.MatchString(t.Name):
			return refuse("tools.%d.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", i)
		}
		said := oddity(s, "", func(s map[string]any, _ string) string {
			properties, _ := s["properties"].(map[string]any)
			for name := range properties {
				if !propertyKey.MatchString(name) {
					return ".properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
				}
			}
			if invalid(s) != "" {
				return ": JSON schema is invalid. It must match JSON Schema draft 2020-12"
			}
			return ""
		})
		if said != "" {
			return refuse("tools.%d.custom.input_schema%s", i, said)
		}
	}
	return nil
}

var geminiName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`)

type geminiPart struct {
	Text         *string `json:"text"`
	FunctionCall *struct {
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	FunctionResponse *json.RawMessage `json:"functionResponse"`
	ThoughtSignature string           `json:"thoughtSignature"`
	InlineData       *struct {
		MIMEType string `json:"mimeType"`
		Data     string `json:"data"`
	} `json:"inlineData"`
}

// signature returns what the model gave as signature of the part.
func (p *geminiPart) signature(model string) string {
	switch {
	case p.FunctionCall != nil:
		return signature(model, p.FunctionCall.Name, compact(p.FunctionCall.Args))
	case p.Text != nil:
		return signature(model, *p.Text)
	}
	return ""
}

// Gemini refuses what the Gemini API refuses.
func Gemini(r *Request) *llm.Error {
	var b struct {
		Contents []struct {
			Role  string       `json:"role"`
			Parts []geminiPart `json:"parts"`
		} `json:"contents"`
		Tools []struct {
			FunctionDeclarations []struct {
				Name       string          `json:"name"`
				Parameters json.RawMessage `json:"parametersJsonSchema"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
	}
	_ = json.Unmarshal(r.Body, &b)
	if len(b.Contents) == 0 {
		return refuse("* GenerateContentRequest.contents: contents is not specified")
	}
	calls, turn := 0, 0
	for i, c := range b.Contents {
		if c.Role == "user" && slices.ContainsFunc(c.Parts, func(p geminiPart) bool { return p.FunctionResponse == nil }) {
			turn = i
		}
	}
	for i, c := range b.Contents {
		made, answered := 0, 0
		for j, p := range c.Parts {
			switch want := p.signature(geminiModel(r)); {
			case p.FunctionCall != nil && made == 0 && i > turn && p.ThoughtSignature == "":
				return refuse("Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:%s` , position %d.", p.FunctionCall.Name, j)
			case p.ThoughtSignature != "" && p.ThoughtSignature != want && (p.FunctionCall == nil || p.ThoughtSignature != "skip_thought_signature_validator"):
				return refuse("Corrupted thought signature.")
			case p.FunctionCall != nil:
				made++
			case p.FunctionResponse != nil:
				answered++
			case p.InlineData != nil && strings.HasPrefix(p.InlineData.MIMEType, "image/") && !imageFits(p.InlineData.MIMEType, p.InlineData.Data):
				return refuse("Unable to process input image. Unsupported MIME type: %s", p.InlineData.MIMEType)
			case p.InlineData == nil && (p.Text == nil || *p.Text == ""):
				return refuse("* GenerateContentRequest.contents[%d].parts[%d].data: required oneof field 'data' must have one initialized field", i, j)
			}
		}
		if made > 0 && (i == 0 || b.Contents[i-1].Role != "user") {
			return refuse("Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
		}
		if calls != answered {
			return refuse("Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
		}
		calls = made
	}
	if calls > 0 {
		return refuse("Please ensure that single turn requests end with a user role or the role field is not specified.")
	}
	for _, t := range b.Tools {
		for i, f := range t.FunctionDeclarations {
			if !geminiName.MatchString(f.Name) {
				return refuse("* GenerateContentRequest.tools[0].function_declarations[%d].name: Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.", i)
			}
			if err := geminiSchema(f.Parameters, fmt.Sprintf("* GenerateContentRequest.tools[0].function_declarations[%d].parameters", i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func geminiSchema(raw json.RawMessage, at string) *llm.Error {
	s := schemaOf(raw)
	if s["type"] != "object" {
		return refuse("%s: only allowed for OBJECT type", at)
	}
	said := oddity(s, at, func(s map[string]any, at string) string {
		_, list := s["type"].([]any)
		values, _ := s["enum"].([]any)
		switch {
		case slices.ContainsFunc(values, func(v any) bool { _, text := v.(string); return !text }):
			return at + ".enum: only allowed for STRING type"
		case list:
			return at + ".type: Proto field is not repeating, cannot start list."
		case itemless(s):
			return at + ".items: missing field."
		case root(s, "$ref", "$defs", "definitions", "const", "not", "if", "patternProperties", "propertyNames"):
			return at + ": Unknown name. Cannot find field."
		}
		if said := invalid(s); said != "" {
			return at + ": " + said
		}
		return ""
	})
	if said != "" {
		return refuse("%s", said)
	}
	return nil
}

// Ollama refuses what older versions of Ollama cannot read.
func Ollama(r *Request) *llm.Error {
	var b struct {
		Messages []struct {
			Images    [][]byte `json:"images"`
			ToolCalls []struct {
				Function struct {
					Arguments map[string]any `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
		Tools []struct {
			Function struct {
				Parameters struct {
					Type       string                     `json:"type"`
					Required   []string                   `json:"required"`
					Properties map[string]json.RawMessage `json:"properties"`
				} `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(r.Body, &b); err != nil {
		return refuse("%s", err)
	}
	for _, m := range b.Messages {
		for _, image := range m.Images {
			if !imageFits("image/png", base64.StdEncoding.EncodeToString(image)) && !imageFits("image/jpeg", base64.StdEncoding.EncodeToString(image)) {
				return &llm.Error{Status: http.StatusInternalServerError, Message: "Failed to load image or audio file"}
			}
		}
	}
	for _, t := range b.Tools {
		for name, p := range t.Function.Parameters.Properties {
			var property struct {
				Type any   `json:"type"`
				Enum []any `json:"enum"`
			}
			if json.Unmarshal(p, &property) != nil {
				return refuse("json: cannot unmarshal into Go struct field .tools.function.parameters.properties.%s", name)
			}
			said := oddity(schemaOf(p), "", func(s map[string]any, _ string) string {
				if _, list := s["type"].([]any); list {
					return "json: cannot unmarshal array into Go struct field .tools.function.parameters.properties.type of type string"
				}
				return invalid(s)
			})
			if said != "" {
				return refuse("%s", said)
			}
		}
	}
	return nil
}
