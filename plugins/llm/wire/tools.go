package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
)

// Tool is a tool that a model can call.
type Tool struct {
	Name, Description string
	Parameters        json.RawMessage // JSON Schema of an object, in the provider's dialect
	Strict            bool
}

// key identifies t.
func (t *Tool) key() key { return keyOf("tool", []byte(t.Name), t.Parameters) }

// tools converts the tools of a request. It leaves out those that the provider does not accept.
func (a *arranger) tools(list []llms.Tool) {
	names := map[string]string{}
	for _, given := range list {
		f := given.Function
		if f == nil {
			continue
		}
		t := Tool{Name: f.Name, Description: shortened(f.Description, a.caps.Description), Strict: f.Strict}
		why := ""
		raw, err := parameters(f)
		var n normalised
		if err == nil {
			n = a.e.known.normalise(raw, a.caps.Schema)
			t.Parameters, err = n.schema, n.err
		}
		switch {
		case err != nil:
			why = err.Error()
		case len(a.refused) > 0 && a.refused.has(t.key()):
			why = a.sentence(withoutTool + t.Name)
		}
		if why != "" {
			a.c.LeftOut = append(a.c.LeftOut, llm.LeftOut{Name: f.Name, Why: why})
			continue
		}
		a.c.Tools = append(a.c.Tools, t)
		maps.Copy(names, n.names)
	}
	a.c.aliases = aliasesOf(names)
}

// parameters returns the schema of a tool.
func parameters(f *llms.FunctionDefinition) (json.RawMessage, error) {
	switch p := f.Parameters.(type) {
	case nil:
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	case json.RawMessage:
		return p, nil
	default:
		return json.Marshal(p)
	}
}

// sentence returns the provider's words that taught something.
func (a *arranger) sentence(what string) string {
	for _, l := range a.learned {
		if l.what == what {
			return l.sentence
		}
	}
	return "the model's provider has refused it"
}

// tooMany returns the failure of a request with more tools than the model takes, or nil.
func (a *arranger) tooMany() error {
	if n := len(a.c.Tools); a.caps.Tools > 0 && n > a.caps.Tools {
		return &llm.Error{Code: "too_many_tools", Message: fmt.Sprintf("%s: the model takes %d tools, and there are %d", a.e.Provider, a.caps.Tools, n)}
	}
	return nil
}

// shortened returns a text of at most limit bytes, cut after a sentence or a word; 0 means no limit.
func shortened(text string, limit int) string {
	if limit == 0 || len(text) <= limit {
		return text
	}
	const mark = " …"
	cut := text[:max(limit-len(mark), 0)]
	for !utf8.ValidString(cut) {
		cut = cut[:len(cut)-1]
	}
	for _, end := range []string{". ", "\n", " "} {
		if i := strings.LastIndex(cut, end); i > len(cut)/2 {
			return strings.TrimSpace(cut[:i+1]) + mark
		}
	}
	return cut + mark
}
