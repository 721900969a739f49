package openai

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/batonrun/baton/plugins/llm/wire"
)

// chatCarried is data that a server wants back with a message: its reasoning in the members in which it came, or the signature of
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

// chatThoughts is the reasoning of an answer while it arrives.
type chatThoughts struct {
	content, reasoning, thinking wire.Pieces
	details                      []*detailPieces
}

// detailPieces is a detail while it arrives.
type detailPieces struct {
	chatDetail
	text, summary wire.Pieces
}

// add adds a piece of the answer.
func (c *chatThoughts) add(d *chatDelta) {
	c.content.Add(d.ReasoningContent)
	c.reasoning.Add(d.Reasoning)
	c.thinking.Add(wire.Text(d.Content.Reasoning))
	for _, more := range d.ReasoningDetails {
		n := len(c.details)
		if n == 0 || !c.details[n-1].continues(&more) {
			c.details = append(c.details, &detailPieces{chatDetail: more})
			n++
		}
		last := c.details[n-1]
		last.text.Add(more.Text)
		last.summary.Add(more.Summary)
		last.ID, last.Format = cmp.Or(more.ID, last.ID), cmp.Or(more.Format, last.Format)
		last.Signature = cmp.Or(more.Signature, last.Signature)
	}
}

// whole returns the reasoning so far.
func (c *chatThoughts) whole() chatCarried {
	all := chatCarried{ReasoningContent: c.content.Text(), Reasoning: c.reasoning.Text(), Thinking: c.thinking.Text()}
	for _, d := range c.details {
		d.Text, d.Summary = d.text.Text(), d.summary.Text()
		all.ReasoningDetails = append(all.ReasoningDetails, d.chatDetail)
	}
	return all
}

// continues reports whether more is the next piece of d.
func (d *chatDetail) continues(more *chatDetail) bool {
	same := d.Index == nil && more.Index == nil || d.Index != nil && more.Index != nil && *d.Index == *more.Index
	return same && d.Type == more.Type && d.Data == "" && more.Data == ""
}

func (c *chatCarried) none() bool {
	return c.ReasoningContent == "" && c.Reasoning == "" && c.Thinking == "" && len(c.ReasoningDetails) == 0
}

func textOf(details []chatDetail) wire.Text {
	var text strings.Builder
	for _, d := range details {
		text.WriteString(string(d.Text + d.Summary))
	}
	return wire.Text(text.String())
}

// carry adds carried data: reasoning in the members in which it came, unless the server is known to expect another.
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
