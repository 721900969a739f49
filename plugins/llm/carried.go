package llm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// kept is the data that a model wants back with an answer, in its places between the answer's texts and calls. It is attached to the
// answer's message for later runs. It is not trusted, because a worker in another program can write one.
type kept struct {
	Origin string     `json:"origin"` // of a Carried
	Sum    string     `json:"sum"`    // of the answer's text
	Parts  []keptPart `json:"parts"`
}

// keptPart is a part of an answer: data, a text or a call.
type keptPart struct {
	Data json.RawMessage `json:"data,omitempty"`
	Text int             `json:"text,omitempty"` // bytes
	Call string          `json:"call,omitempty"` // our id
	ID   string          `json:"id,omitempty"`   // the provider's id of the call
}

// keep returns the value for an answer, or nil if its model wants nothing back.
func keep(resp *Response, ans *answer) *kept {
	k := &kept{Sum: sum(ans.Text)}
	for _, p := range resp.Parts {
		switch p := p.(type) {
		case Carried:
			k.Origin = p.Origin
			k.Parts = append(k.Parts, keptPart{Data: p.Data})
		case llms.TextContent:
			k.Parts = append(k.Parts, keptPart{Text: len(p.Text)})
		case llms.ToolCall:
			if i := slices.IndexFunc(ans.Calls, func(c call) bool { return c.ProviderID == p.ID }); i >= 0 {
				k.Parts = append(k.Parts, keptPart{Call: ans.Calls[i].ID, ID: p.ID})
			}
		}
	}
	if k.Origin == "" {
		return nil
	}
	return k
}

// sum returns a hash that shows whether a text is still the same.
func sum(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:4])
}

// maxKept limits a value at a message, in bytes.
const maxKept = 1 << 20

// maxData limits the parts of a value that have data, so that a model's refusals of them can all be remembered.
const maxData = 64

// attachKept attaches the value to the message of the answer. A value that is too large is available in this run alone.
func (t *turn) attachKept(ctx context.Context, k *kept) error {
	if k == nil {
		return nil
	}
	value, err := json.Marshal(k)
	if err != nil || len(value) > maxKept {
		return err
	}
	err = t.run.AttachValue(ctx, string(value))
	if refused, ok := errors.AsType[*plugins.Error](err); ok && slices.Contains(tooLarge, refused.Code) {
		return nil
	}
	return err
}

// tooLarge are the refusals of a value at a message: the message, the event or the run would be too large.
var tooLarge = []string{"illegal_event", "event_too_large", "messages_too_large"}

// keptOf returns the value of the answer that begins with m. It is nil if there is none, if it has too much data, or if this agent is not
// known to be the author. Data that no model of the agent wants is left out.
func (v *converter) keptOf(m *agui.Message) *kept {
	var k kept
	if m.EncryptedValue == "" || json.Unmarshal([]byte(m.EncryptedValue), &k) != nil {
		return nil
	}
	author := authorOf(m.Metadata)
	if len(m.ToolCalls) > 0 {
		caller := authorOf(m.ToolCalls[0].Metadata)
		if author = cmp.Or(author, caller); cmp.Or(caller, author) != author {
			return nil
		}
	}
	if author != v.a.cfg.Name {
		return nil
	}
	data := 0
	for _, p := range k.Parts {
		if p.Data != nil {
			data++
		}
	}
	switch {
	case data > maxData:
		return nil
	case !v.wants(k.Origin):
		k.Parts = slices.DeleteFunc(k.Parts, func(p keptPart) bool { return p.Data != nil })
	}
	return &k
}

// wants reports whether one of the models can want data of an origin back.
func (v *converter) wants(origin string) bool {
	return slices.ContainsFunc(v.a.models, func(m Streamer) bool {
		c, ok := m.(Carrier)
		return !ok || c.Origin(v.a.cfg.Options.Model) == origin
	})
}

// size returns the bytes of the data.
func (k *kept) size() (n int) {
	if k != nil {
		for _, p := range k.Parts {
			n += len(p.Data)
		}
	}
	return n
}

// authorOf returns the agent that metadata names as the author, "" for none.
func authorOf(metadata json.RawMessage) string {
	var by struct{ Agent string }
	_ = json.Unmarshal(metadata, &by) // others have written it
	return by.Agent
}

// id returns the provider's id of a call.
func (k *kept) id(ours string) string {
	if k != nil {
		for _, p := range k.Parts {
			if p.Call == ours && p.ID != "" {
				return p.ID
			}
		}
	}
	return ours
}

// parts returns an answer's texts, calls and carried data in order, or nil if the texts or calls have changed since.
func (k *kept) parts(text string, calls []call, b *toolbox) (parts []llms.ContentPart) {
	if k == nil || k.Sum != sum(text) {
		return nil
	}
	calls = slices.Clone(calls)
	for _, p := range k.Parts {
		i := slices.IndexFunc(calls, func(c call) bool { return c.ID == p.Call })
		switch {
		case p.Data != nil:
			parts = append(parts, Carried{Origin: k.Origin, Data: p.Data})
		case p.Call == "" && p.Text > 0 && p.Text <= len(text):
			parts = append(parts, llms.TextContent{Text: text[:p.Text]})
			text = text[p.Text:]
		case p.Call != "" && i >= 0:
			parts = append(parts, b.call(calls[i]))
			calls = slices.Delete(calls, i, i+1)
		default:
			return nil
		}
	}
	if text != "" || len(calls) > 0 {
		return nil
	}
	return parts
}

// restore returns the parts of the answer that begins a list of messages, and the number of messages that have it. An answer
// of texts and calls in turn has several, with results between them. Without all of the answer, it is the first message alone.
func (v *converter) restore(messages []agui.Message) (parts []llms.ContentPart, n int) {
	k := v.keptOf(&messages[0])
	var text strings.Builder
	var calls []call
	for i := range messages {
		m := &messages[i]
		if m.Role == agui.RoleTool {
			continue
		}
		if m.Role != agui.RoleAssistant || i > 0 && m.EncryptedValue != "" {
			break
		}
		text.WriteString(m.Text())
		calls = append(calls, v.calls(m, k)...)
		if parts := k.parts(text.String(), calls, v.tools); parts != nil {
			return parts, i + 1
		}
		if k == nil {
			break
		}
	}
	first := &messages[0]
	return v.tools.parts(first.Text(), v.calls(first, k), nil), 1
}

// calls returns the calls of a message, and remembers them for their results.
func (v *converter) calls(m *agui.Message, k *kept) (calls []call) {
	for _, c := range m.ToolCalls {
		made := call{ID: c.ID, ProviderID: k.id(c.ID), Name: c.Name, Arguments: c.Arguments}
		if v.past == nil {
			v.past = make(map[string]call)
		}
		v.past[c.ID] = made
		calls = append(calls, made)
	}
	return calls
}
