package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
)

// toolbox is the set of tools that a model can call. Providers allow only some names; ours have dots and other letters.
type toolbox struct {
	list     []llms.Tool
	names    map[string]string // by the provider's name
	wires    map[string]string // by our name
	patterns []string
	reads    bool // ReadResult is ours

	counted int // tools whose tokens are in size
	size    int
}

// tokens estimates the tokens of all tools. It counts them again only after one was added.
func (b *toolbox) tokens(count func(text string) int) int {
	if b.counted != len(b.list) {
		tools, _ := json.Marshal(b.list) // a tool that is no JSON is left out later
		b.counted, b.size = len(b.list), count(string(tools))
	}
	return b.size
}

// offered returns the tools and agents that match the patterns, and the client's tools.
func offered(run *plugins.Run, patterns []string) *toolbox {
	b := &toolbox{names: make(map[string]string), wires: make(map[string]string), patterns: patterns}
	all := run.Tools(patterns...)
	for _, t := range run.Input.Tools {
		all = append(all, plugins.Info{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	same := make(map[string]int) // tools by their names without dots
	for _, info := range all {
		if _, twice := b.wires[info.Name]; !twice {
			b.wires[info.Name] = ""
			same[dotless(info.Name)]++
		}
	}
	for _, info := range all {
		if b.wires[info.Name] == "" {
			b.add(info, same[dotless(info.Name)] > 1)
		}
	}
	return b
}

// add adds a tool; shared reports whether another name is the same without dots.
func (b *toolbox) add(info plugins.Info, shared bool) {
	wire := wireOf(info.Name)
	if shared && wire != info.Name {
		wire = Alias(info.Name)
	}
	b.names[wire], b.wires[info.Name] = info.Name, wire
	f := &llms.FunctionDefinition{Name: wire, Description: info.Description}
	if len(info.Parameters) > 0 {
		f.Parameters = info.Parameters
	}
	b.list = append(b.list, llms.Tool{Type: "function", Function: f})
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

// asText finds a call that a model has written instead of made: behind a tag that is named for calls, or in another form in which models are
// trained to write them. The rest of the line or the next one names the tool.
var asText = regexp.MustCompile(`(?m)^\s*(?:<[^<>/\s]{0,12}(?i:(?:tool|function)[_▁]?calls?|python_tag|tool_code)[^<>\s]*>|<[^<>/\s]{0,12}(?:function=|invoke name=)|` +
	`\[TOOL_CALLS\]|functools\[|<\|channel\|>commentary to=|` + "```tool_code" + `)((?:.*\n?){0,2})`)

// written reports whether a text has the call of one of the tools.
func (b *toolbox) written(text string) bool {
	for _, call := range asText.FindAllStringSubmatch(text, -1) {
		for wire, name := range b.names {
			if strings.Contains(call[1], wire) || strings.Contains(call[1], name) {
				return true
			}
		}
	}
	return false
}

// wire returns the provider's name of a tool, even of one that is no longer offered.
func (b *toolbox) wire(name string) string {
	if wire, ok := b.wires[name]; ok {
		return wire
	}
	return wireOf(name)
}

// advise adds the pattern to narrow to the failure of a request with too many tools.
func (b *toolbox) advise(err error) error {
	failed, ok := errors.AsType[*plugins.Error](err)
	if !ok || failed.Code != "too_many_tools" {
		return err
	}
	advised := *failed
	if widest, matches, _ := host.Widest(b.patterns, slices.Collect(maps.Keys(b.wires))); matches > 0 {
		advised.Message += fmt.Sprintf(": narrow the agent's tools: %q matches %d of them", b.patterns[widest], matches)
	}
	return &advised
}

// prefixes are put by models before the names of tools, from the forms in which they were trained to see them.
var prefixes = []string{"", "functions.", "default_api.", "default_api:", "tools.", "functions:"}

// plain returns a name in which other characters are underscores. Other names can become the same.
func plain(name string) string {
	name = strings.Map(func(r rune) rune {
		if allowed(r) {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), 64)]
}

// parts returns an answer in the form for the model.
func (b *toolbox) parts(text string, calls []call, k *kept) []llms.ContentPart {
	parts := k.parts(text, calls, b)
	if parts != nil {
		return parts
	}
	if text != "" {
		parts = append(parts, llms.TextContent{Text: text})
	}
	for _, c := range calls {
		parts = append(parts, b.call(c))
	}
	return parts
}

// call returns a call in the form for the model. Providers refuse arguments that are not an object; the result of such a
// call quotes them.
func (b *toolbox) call(c call) llms.ToolCall {
	arguments, err := readArguments(c.Arguments)
	if err != nil {
		arguments = "{}"
	}
	return llms.ToolCall{ID: c.ProviderID, Type: "function", FunctionCall: &llms.FunctionCall{Name: b.wire(c.Name), Arguments: arguments}}
}

func isObject(raw string) bool {
	return bytes.HasPrefix(bytes.TrimSpace([]byte(raw)), []byte{'{'}) && json.Valid([]byte(raw))
}
