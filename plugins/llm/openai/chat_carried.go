package openai

import (
	"cmp"
	"encoding/json"

	"github.com/batonrun/baton/plugins/llm/wire"
)

// chatCarried is what a server wants back with a message: its reasoning in the members in which it came, or the signature of
// the call before it.
type chatCarried struct {
	ReasoningContent wire.Text    `json:"reasoning_content,omitempty"`
	Reasoning        wire.Text    `json:"reasoning,omitempty"`
	ReasoningDetails []chatDetail `json:"reasoning_details,omitempty"`
	Thinking         wire.Text    `json:"thinking,omitempty"` // in the content
	ExtraContent     *chatExtra   `json:"extra_content,omitempty"`
}

// chatDetail is a part of the reasoning of OpenRouter's models.
type chatDetail struct {
	Type      wire.Word   `json:"type"`
	ID        wire.Word   `json:"id,omitempty"`
	Format    wire.Word   `json:"format,omitempty"`
	Index     *wire.Count `json:"index,omitempty"`
	Text      wire.Text   `json:"text,omitempty"`
	Summary   wire.Text   `json:"summary,omitempty"`
	Data      wire.Word   `json:"data,omitempty"`
	Signature wire.Word   `json:"signature,omitempty"`
}

// chatExtra is the signature of a call of Google's models.
type chatExtra struct {
	Google struct {
		ThoughtSignature wire.Word `json:"thought_signature"`
	} `json:"google"`
}

// chatThinking is the reasoning in the content of Mistral's models.
type chatThinking struct {
	Type     string     `json:"type"`
	Thinking []chatPart `json:"thinking"`
}

// add adds a piece of the answer.
func (c *chatCarried) add(d *chatDelta) {
	c.ReasoningContent += d.ReasoningContent
	c.Reasoning += d.Reasoning
	c.Thinking += wire.Text(d.Content.Reasoning)
	for _, more := range d.ReasoningDetails {
		n := len(c.ReasoningDetails)
		if n == 0 || !c.ReasoningDetails[n-1].continues(&more) {
			c.ReasoningDetails = append(c.ReasoningDetails, more)
			continue
		}
		last := &c.ReasoningDetails[n-1]
		last.Text += more.Text
		last.Summary += more.Summary
		last.ID, last.Format = cmp.Or(more.ID, last.ID), cmp.Or(more.Format, last.Format)
		last.Signature = cmp.Or(more.Signature, last.Signature)
	}
}

// whole returns c with the halves of characters joined that came in two pieces.
func (c chatCarried) whole() chatCarried {
	join := func(t *wire.Text) { *t = wire.Text(t.String()) }
	join(&c.ReasoningContent)
	join(&c.Reasoning)
	join(&c.Thinking)
	for i := range c.ReasoningDetails {
		join(&c.ReasoningDetails[i].Text)
		join(&c.ReasoningDetails[i].Summary)
	}
	return c
}

// continues reports whether more is the next piece of d.
func (d *chatDetail) continues(more *chatDetail) bool {
	same := d.Index == nil && more.Index == nil || d.Index != nil && more.Index != nil && *d.Index == *more.Index
	return same && d.Type == more.Type && d.Data == "" && more.Data == ""
}

func (c *chatCarried) none() bool {
	return c.ReasoningContent == "" && c.Reasoning == "" && c.Thinking == "" && len(c.ReasoningDetails) == 0
}

func textOf(details []chatDetail) (text wire.Text) {
	for _, d := range details {
		text += d.Text + d.Summary
	}
	return text
}

// carry adds what was carried: reasoning in the members in which it came, unless the server is known to expect another.
func (m *chatMessage) carry(data json.RawMessage, member string) {
	var c chatCarried
	_ = json.Unmarshal(data, &c) // ignores data carried by responses
	if n := len(m.ToolCalls); n > 0 && c.ExtraContent != nil {
		m.ToolCalls[n-1].ExtraContent = c.ExtraContent
	}
	text := cmp.Or(c.ReasoningContent, c.Reasoning, c.Thinking, textOf(c.ReasoningDetails)).String()
	switch {
	case c.none() || member == "none":
	case member == "reasoning_content":
		m.ReasoningContent = text
	case member == "reasoning":
		m.Reasoning = text
	default:
		m.ReasoningContent, m.ReasoningDetails = c.ReasoningContent.String(), c.ReasoningDetails
		if len(c.ReasoningDetails) == 0 {
			m.Reasoning = c.Reasoning.String()
		}
		m.thinking = c.Thinking.String()
	}
}
