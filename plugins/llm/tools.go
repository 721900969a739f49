package llm

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
)

// toolbox is the set of tools that a model can call. Providers allow only names of [a-zA-Z0-9_-]{1,64}; ours have dots.
type toolbox struct {
	list  []llms.Tool
	names map[string]string // by the provider's name
	wires map[string]string // by our name
}

// offered returns the tools and agents that match the patterns, and the client's tools.
func offered(run *plugins.Run, patterns []string) *toolbox {
	b := &toolbox{names: make(map[string]string), wires: make(map[string]string)}
	for _, info := range run.Tools(patterns...) {
		b.add(info.Name, info.Description, info.Parameters)
	}
	for _, t := range run.Input.Tools {
		b.add(t.Name, t.Description, t.Parameters)
	}
	return b
}

func (b *toolbox) add(name, description string, parameters json.RawMessage) {
	if _, taken := b.wires[name]; taken {
		return
	}
	wire := plain(name)
	for n := 2; b.names[wire] != ""; n++ {
		suffix := "_" + strconv.Itoa(n)
		wire = plain(name)
		wire = wire[:min(len(wire), 64-len(suffix))] + suffix
	}
	b.names[wire], b.wires[name] = name, wire
	if len(parameters) == 0 {
		parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	b.list = append(b.list, llms.Tool{Type: "function", Function: &llms.FunctionDefinition{
		Name: wire, Description: description, Parameters: parameters,
	}})
}

// name returns our name of the tool that the model calls wire, by either name. For an unknown tool it returns a name that no
// plugin can have: viewers see the call, and it fails.
func (b *toolbox) name(wire string) string {
	for _, prefix := range prefixes {
		rest, has := strings.CutPrefix(wire, prefix)
		if name, ok := b.names[rest]; has && ok {
			return name
		}
		if _, ok := b.wires[rest]; has && ok {
			return rest
		}
	}
	return plain("_" + wire)
}

// prefixes are what models put before the names of tools, from the forms in which they were trained to see them.
var prefixes = []string{"", "functions.", "default_api.", "default_api:", "tools.", "functions:"}

// wire returns the provider's name of a tool, even of one that is no longer offered.
func (b *toolbox) wire(name string) string {
	if wire, ok := b.wires[name]; ok {
		return wire
	}
	return plain(name)
}

func plain(name string) string {
	wire := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	if wire == "" {
		return "_"
	}
	return wire[:min(len(wire), 64)]
}

// message returns an answer in the form for the model.
func (b *toolbox) message(ans *answer) llms.MessageContent {
	m := llms.MessageContent{Role: llms.ChatMessageTypeAI}
	for _, c := range ans.Carried { // reasoning precedes the text
		m.Parts = append(m.Parts, Carried{Provider: c.Provider, Data: c.Data})
	}
	if ans.Text != "" {
		m.Parts = append(m.Parts, llms.TextContent{Text: ans.Text})
	}
	for _, c := range ans.Calls {
		m.Parts = append(m.Parts, toolCall(c.ProviderID, b.wire(c.Name), c.Arguments))
	}
	return m
}

// toolCall returns a call in the form for the model. Providers refuse arguments that are not an object; the result of such a
// call quotes them.
func toolCall(id, wire, arguments string) llms.ToolCall {
	arguments, err := readArguments(arguments)
	if err != nil {
		arguments = "{}"
	}
	return llms.ToolCall{ID: id, Type: "function", FunctionCall: &llms.FunctionCall{Name: wire, Arguments: arguments}}
}

// result returns a call's result in the form for the model. One that alone would fill the prompt is shortened.
func (a *Agent) result(id, wire, content string) llms.MessageContent {
	content = shortened(content, max(4*a.cfg.History, leastResult))
	return llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
		llms.ToolCallResponse{ToolCallID: id, Name: wire, Content: content},
	}}
}

func isObject(raw string) bool {
	return bytes.HasPrefix(bytes.TrimSpace([]byte(raw)), []byte{'{'}) && json.Valid([]byte(raw))
}
