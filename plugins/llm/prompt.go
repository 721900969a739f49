package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// begin makes the first request: what the model is told, and of the thread as much as fits.
func (t *turn) begin(ctx context.Context) error {
	told, err := t.told(ctx)
	if err != nil {
		return err
	}
	h := t.history()
	note, err := t.fit(ctx, h)
	if err != nil {
		return err
	}
	if note != "" {
		told = append(told, llms.TextContent{Text: "What was said before, summed up:\n" + note})
	}
	if len(told) > 0 {
		t.messages = append(t.messages, llms.MessageContent{Role: llms.ChatMessageTypeSystem, Parts: told})
	}
	if err := t.attachments(ctx, h.turns); err != nil {
		return err
	}
	for i, turn := range h.turns {
		for j := range turn {
			if kind := t.unsupported(&turn[j]); kind != "" && i == len(h.turns)-1 {
				return &plugins.Error{Code: "unsupported_part", Message: fmt.Sprintf("A part of type %s cannot be given to the model", kind)}
			}
			t.messages = append(t.messages, t.convert(&turn[j])...)
		}
	}
	return nil
}

// told is what the model is told before the conversation, what stays the same first, so that providers can keep it.
func (t *turn) told(ctx context.Context) (parts []llms.ContentPart, err error) {
	in := &t.run.Input
	tell := func(title, text string) {
		if text == "" {
			return
		}
		if title != "" {
			text = title + ":\n" + text
		}
		parts = append(parts, llms.TextContent{Text: text})
	}
	tell("", t.cfg.System)
	if t.cfg.Structured { // also in words: not every provider takes a schema, or one beside tools
		tell("When you have the answer, write it as one JSON object that satisfies this JSON Schema, and nothing else", string(outputSchema))
	}
	for i := range in.Messages {
		if m := &in.Messages[i]; m.Role == agui.RoleSystem || m.Role == agui.RoleDeveloper {
			tell("", m.Text())
		}
	}
	for _, c := range in.Context {
		tell(c.Description, c.Value)
	}
	left := maxItems
	for _, id := range in.ContextItemIDs {
		if t.cfg.Items == nil {
			break
		}
		if left <= 0 {
			tell("", "[the other items are left out, as they are too many]")
			break
		}
		text, err := t.cfg.Items.Item(ctx, in, id)
		switch {
		case errors.Is(err, ErrNoItem):
			text = "[there is no such item]"
		case err != nil:
			return nil, fmt.Errorf("context item: %w", err)
		case len(text) > left:
			text = "[left out, as it is too long]"
		}
		left -= len(text)
		tell("Item "+id, text)
	}
	if t.cfg.ShowState && string(in.State) != "{}" {
		tell("The thread's state", string(in.State))
	}
	return parts, nil
}

// maxItems is how many bytes of items a request holds.
const maxItems = 1 << 20

// history is a thread as turns: each begins with a message of the user.
type history struct {
	turns [][]agui.Message
	note  note // of what stood before them, when there is one
}

// note sums up what stands in a thread up to a message. It is kept as an activity of the thread, so that it is made once.
type note struct {
	UpTo string `json:"upTo"`
	Text string `json:"text"`
}

func (t *turn) history() *history {
	h := &history{}
	for _, m := range t.run.Input.Messages {
		switch m.Role {
		case agui.RoleSystem, agui.RoleDeveloper, agui.RoleReasoning:
			continue
		case agui.RoleActivity:
			var n note
			if m.ActivityType == plugins.SummaryActivity && json.Unmarshal(m.Parts, &n) == nil && n.Text != "" {
				h.note = n
			}
			continue
		}
		if m.Role == agui.RoleUser || len(h.turns) == 0 {
			h.turns = append(h.turns, nil)
		}
		last := &h.turns[len(h.turns)-1]
		*last = append(*last, m)
	}
	for i, turn := range h.turns {
		if turn[len(turn)-1].ID == h.note.UpTo {
			h.turns = h.turns[i+1:]
			break
		}
	}
	return h
}

// size estimates the tokens of a turn. Four stand for what surrounds a message, and a thousand for an image or a file.
func (t *turn) size(turn []agui.Message) (tokens int) {
	for i := range turn {
		m := &turn[i]
		tokens += 4 + t.cfg.Count(m.Text())
		for _, c := range m.ToolCalls {
			tokens += 4 + t.cfg.Count(c.Name) + t.cfg.Count(c.Arguments)
		}
		for _, p := range m.ContentParts() {
			if p.Type != "text" {
				tokens += 1000
			}
		}
		tokens += 1000 * len(plugins.Attachments(m))
	}
	return tokens
}

// fit leaves out the oldest turns that do not fit the budget, and returns what sums them up, if something does. When
// they are to be summed up half of the budget is made free, so that this is not done for each turn.
func (t *turn) fit(ctx context.Context, h *history) (string, error) {
	first := t.first(h, t.cfg.History)
	if first == 0 {
		return h.note.Text, nil
	}
	if t.cfg.Summarise {
		first = t.first(h, t.cfg.History/2)
	}
	out := h.turns[:first]
	h.turns = h.turns[first:]
	var done trimmed
	err := t.run.Do(ctx, "history", &done, func(ctx context.Context) error {
		done = trimmed{Turns: len(out)}
		if t.cfg.Summarise {
			if err := t.sumUp(ctx, h.note, out, &done); err != nil {
				return err
			}
		}
		value, err := json.Marshal(map[string]any{"turns": len(out), "summarised": done.Note != ""})
		if err != nil {
			return err
		}
		return t.run.Emit(agui.Custom{Name: TrimmedEvent, Value: value})
	})
	if err != nil {
		return "", shown(err)
	}
	if done.Call != nil {
		t.count(done.Call.Usage)
	}
	if done.Note == "" {
		return h.note.Text, nil
	}
	return done.Note, nil
}

// TrimmedEvent is the name of the CUSTOM event that says how many of the thread's turns the model is not shown; its
// value is {turns, summarised}.
const TrimmedEvent = "history-trimmed"

// trimmed is the record of what was left out.
type trimmed struct {
	Turns int                `json:"turns"`
	Note  string             `json:"note,omitempty"`
	Call  *plugins.ModelCall `json:"call,omitempty"`
}

// first is the turn from which on all fit into a budget; the last one does.
func (t *turn) first(h *history, budget int) int {
	first := max(len(h.turns)-1, 0)
	for i, turn := range slices.Backward(h.turns) {
		if budget -= t.size(turn); budget < 0 {
			break
		}
		first = i
	}
	return first
}

// sumUp has the model sum up turns and what is known of those before them. A model that cannot is no reason to fail: the turns
// are left out without.
func (t *turn) sumUp(ctx context.Context, before note, turns [][]agui.Message, done *trimmed) error {
	var said strings.Builder
	if before.Text != "" {
		said.WriteString("Earlier, summed up: " + before.Text + "\n\n")
	}
	for _, turn := range turns {
		for i := range turn {
			m := &turn[i]
			fmt.Fprintf(&said, "%s: %s\n", m.Role, clip(m.Text(), maxSaid))
			for _, c := range m.ToolCalls {
				fmt.Fprintf(&said, "%s calls %s(%s)\n", m.Role, c.Name, clip(c.Arguments, maxSaid/4))
			}
		}
	}
	text := said.String()
	if most := 4 * t.cfg.History; len(text) > most {
		text = "…" + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	const task = "Sum up this conversation for a colleague who goes on with it: facts, decisions, names, numbers, what is open. Use few words. Write the summary alone."
	req := Request{Options: t.cfg.Options, Messages: []llms.MessageContent{
		llms.TextParts(llms.ChatMessageTypeSystem, task), llms.TextParts(llms.ChatMessageTypeHuman, text),
	}}
	spent := counter{ctx: ctx, run: t.run}
	resp, err := t.stream(ctx, t.model, req, func(p Piece) error {
		if p.Usage != nil {
			return spent.add(*p.Usage)
		}
		return nil
	})
	if resp.Usage != (agui.TokenUsage{}) {
		done.Call = &plugins.ModelCall{Usage: sane(resp.Usage)}
		if countErr := spent.end(*done.Call, false); countErr != nil {
			return countErr
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	last := turns[len(turns)-1]
	n := note{UpTo: last[len(last)-1].ID, Text: strings.TrimSpace(resp.Text)}
	if err != nil || n.Text == "" {
		return nil //nolint:nilerr // the turn is worth more than the summary
	}
	content, err := json.Marshal(n)
	if err != nil {
		return err
	}
	done.Note = n.Text
	return t.run.Emit(agui.ActivitySnapshot{MessageID: "summary-" + n.UpTo, ActivityType: plugins.SummaryActivity, Content: content})
}

// maxSaid is how many bytes of a message the summary is made of.
const maxSaid = 4000

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
