package llmtest

import (
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

// Mistral has the refusals of Mistral's API.
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

// MistralTemplate has the refusals of the template of Mistral's older models.
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

// Gemma has the refusals of Gemma's template.
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

// LMStudio has the refusals of LM Studio and older servers of llama.cpp.
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

// Ollama has the refusals of older versions of Ollama.
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
