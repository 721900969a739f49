package llmtest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/batonrun/baton/plugins/llm"
)

var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// OpenAI has the refusals of OpenAI's chat completions.
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

// Responses has the refusals of OpenAI's responses API.
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

// Azure has the refusals of Azure's OpenAI in addition to OpenAI's.
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
