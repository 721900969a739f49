package llmtest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/batonrun/baton/plugins/llm"
)

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

// Anthropic has the refusals of Anthropic's API.
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
