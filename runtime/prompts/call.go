package prompts

import (
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Call is a call of a model that is under way.
type Call struct {
	data.Prompt
	changes []plugins.PromptChange
	shown   []string // messages that its worker has begun since
}

// maxShown limits the messages of an answer.
const maxShown = 1000

// Show notes the message that an event of the call's worker begins.
func (c *Call) Show(ev agui.Event) {
	id := ""
	switch e := ev.(type) {
	case agui.TextMessageStart:
		id = e.MessageID
	case agui.ReasoningMessageStart:
		id = e.MessageID
	case agui.ToolCallStart:
		if id = e.ParentMessageID; id == "" {
			id = e.ToolCallID
		}
	default:
		return
	}
	if n := len(c.shown); n < maxShown && (n == 0 || c.shown[n-1] != id) {
		c.shown = append(c.shown, id)
	}
}

// Begin returns the rows of a call that begins. prompt may be nil.
func (p *Writer) Begin(c *Call, prompt *plugins.Prompt) (rows []data.Row) {
	if prompt != nil {
		c.Provider, c.Model = data.Plain(data.Clip(prompt.Provider, 200)), data.Plain(data.Clip(prompt.Model, 200))
		if p != nil {
			c.changes, c.Changes = prompt.Changes, Changes(prompt.Changes)
			c.Sent, rows = p.sent(prompt)
		}
	}
	return append(rows, new(c.Prompt))
}

// End returns the rows of a call's end. message returns what the log shows of a message, and its seq, 0 for none. answer may be nil.
func (p *Writer) End(c *Call, end *data.PromptEnd, answer *plugins.ModelAnswer, message func(id string) (agui.Message, int64)) (rows []data.Row) {
	if answer != nil {
		end.FirstToken = answer.FirstToken
	}
	if p == nil {
		return []data.Row{end}
	}
	if answer != nil && len(answer.Changes) > 0 {
		end.Changes = Changes(append(slices.Clip(c.changes), answer.Changes...))
	}
	var shown Answered
	var seqs []int64
	for _, id := range c.shown {
		if m, seq := message(id); seq != 0 {
			shown.Add(&m)
			seqs = append(seqs, seq)
		}
	}
	end.Answer, rows = p.answer(seqs, &shown, answer)
	return append(rows, end)
}
