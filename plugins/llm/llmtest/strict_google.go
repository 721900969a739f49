package llmtest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/batonrun/baton/plugins/llm"
)

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

// signature returns the model's signature of the part.
func (p *geminiPart) signature(model string) string {
	switch {
	case p.FunctionCall != nil:
		return signature(model, p.FunctionCall.Name, compact(p.FunctionCall.Args))
	case p.Text != nil:
		return signature(model, *p.Text)
	}
	return ""
}

// Gemini has the refusals of the Gemini API.
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
