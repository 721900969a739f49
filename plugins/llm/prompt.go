package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// begin builds the first request: the instructions, and as much of the thread as fits.
func (t *turn) begin(ctx context.Context) error {
	h, err := t.history(ctx)
	if err != nil {
		return err
	}
	told, err := t.instructions(ctx, h.system)
	if err != nil {
		return err
	}
	note, err := t.fit(ctx, h)
	if err != nil {
		return err
	}
	t.told, t.thread = told, h.turns
	t.sumUp(note)
	if err := t.conv.attachments(ctx, h.turns); err != nil {
		return err
	}
	for _, turn := range h.turns {
		t.turns = append(t.turns, len(t.messages))
		t.messages = append(t.messages, t.conv.convert(turn)...)
	}
	if query := t.run.Input.Query; query != "" && query != lastUser(h.turns) { // of a workflow's node
		t.turns = append(t.turns, len(t.messages))
		t.messages = append(t.messages, plainSent(llms.TextParts(llms.ChatMessageTypeHuman, query))...)
	}
	return nil
}

// lastUser returns the text of the last user message.
func lastUser(turns [][]agui.Message) string {
	if len(turns) > 0 {
		if m := &turns[len(turns)-1][0]; m.Role == agui.RoleUser {
			return m.Text()
		}
	}
	return ""
}

// sumUp replaces the summary of earlier turns behind the instructions. An empty one leaves the prompt as it is.
func (t *turn) sumUp(note string) {
	parts := slices.Clone(t.told)
	if t.note = cmp.Or(note, t.note); t.note != "" {
		parts = append(parts, llms.TextContent{Text: "What was said before, summed up:\n" + t.note})
	}
	if len(parts) == 0 {
		return
	}
	if len(t.messages) == 0 || t.messages[0].Role != llms.ChatMessageTypeSystem {
		t.messages = slices.Insert(slices.Clone(t.messages), 0, message{})
		for i := range t.turns {
			t.turns[i]++
		}
	}
	t.messages = slices.Clone(t.messages)
	t.messages[0] = message{MessageContent: llms.MessageContent{Role: llms.ChatMessageTypeSystem, Parts: parts}}
}

// instructions returns the instructions before the conversation. Constant parts come first, so that providers can cache them.
func (t *turn) instructions(ctx context.Context, system []agui.Message) (parts []llms.ContentPart, err error) {
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
	tell("", t.a.cfg.System)
	if t.a.form != nil { // also as text: not every provider supports a schema, or one together with tools
		tell("When you have the answer, write it as one JSON object that satisfies this JSON Schema, and nothing else", string(t.a.cfg.Output))
	}
	for i := range system {
		tell("", system[i].Text())
	}
	for _, c := range in.Context {
		tell(c.Description, c.Value)
	}
	left := maxItems
	for _, id := range in.ContextItemIDs {
		if t.a.cfg.Items == nil {
			break
		}
		if left <= 0 {
			tell("", "[the other items are left out, as they are too many]")
			break
		}
		text, err := t.a.cfg.Items.Item(ctx, in, id)
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
	if len(in.State) > 0 && string(in.State) != "{}" {
		tell("The thread's state", string(in.State))
	}
	return parts, nil
}

// maxItems limits the items of a request, in bytes.
const maxItems = 1 << 20

// history is the end of a thread as turns, each of which begins with a user message.
type history struct {
	turns  [][]agui.Message
	note   note           // summary of earlier turns, if there is one
	noted  bool           // the first turn follows those of the summary
	system []agui.Message // instructions of the client
}

// note is a summary of a thread up to a message. The agent remembers it, so it is made once.
type note struct{ UpTo, Text string }

// fewMessages is how many messages of the thread are read first.
const fewMessages = 50

// history reads as many turns as the prompt may have, and at least one more if there are more. A summary is made of all turns since the
// last one.
func (t *turn) history(ctx context.Context) (*history, error) {
	for limit := fewMessages; ; {
		messages, more, err := t.run.Messages(ctx, limit)
		if err != nil {
			return nil, err
		}
		h := turns(messages)
		if err := t.recall(ctx, h); err != nil {
			return nil, err
		}
		if !more || limit >= plugins.MaxMessages || h.noted || !t.a.cfg.Summarise && t.first(h, t.a.cfg.History) > 0 {
			return h, nil
		}
		size := 1
		for _, turn := range h.turns {
			size += t.size(turn)
		}
		limit = max(2*limit, limit+limit/4*t.a.cfg.History/size*5) // as many as fit if the others are as long, and a few more
	}
}

// turns divides messages of a thread into turns. The first one may lack its beginning.
func turns(messages []agui.Message) *history {
	h := &history{}
	for _, m := range messages {
		switch m.Role {
		case agui.RoleSystem, agui.RoleDeveloper:
			h.system = append(h.system, m)
			continue
		case agui.RoleReasoning, agui.RoleActivity:
			continue
		}
		if m.Role == agui.RoleUser || len(h.turns) == 0 {
			h.turns = append(h.turns, nil)
		}
		last := &h.turns[len(h.turns)-1]
		*last = append(*last, m)
	}
	return h
}

// summaryKey is the key of a summary up to a message.
func summaryKey(upTo string) string { return "summary " + upTo }

// recall replaces the turns of which the agent has a summary.
func (t *turn) recall(ctx context.Context, h *history) error {
	if !t.a.cfg.Summarise || len(h.turns) == 0 {
		return nil
	}
	ends := make([]string, len(h.turns))
	for i, turn := range h.turns {
		ends[i] = turn[len(turn)-1].ID
	}
	keys := make([]string, len(ends))
	for i, end := range ends {
		keys[i] = summaryKey(end)
	}
	texts, err := t.run.Recall(ctx, keys)
	for i, end := range slices.Backward(ends) {
		if text, ok := texts[keys[i]]; ok {
			h.note, h.turns, h.noted = note{end, text}, h.turns[i+1:], true
			break
		}
	}
	return err
}

// size estimates the tokens of a turn in the prompt, with four extra tokens per message and a thousand per image or file.
func (t *turn) size(turn []agui.Message) (tokens int) {
	for i := range turn {
		m := &turn[i]
		text := t.a.cfg.Count(m.Text())
		if m.Role == agui.RoleTool {
			text = min(text, t.a.cfg.ResultTokens)
		}
		tokens += 4 + text + t.conv.keptOf(m).size()/4
		for _, c := range m.ToolCalls {
			tokens += 4 + t.a.cfg.Count(c.Name) + t.a.cfg.Count(c.Arguments)
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

// fit omits the oldest turns that exceed the budget, and returns their summary, if there is one. Summarizing frees half of
// the budget, so that it is not necessary for each turn.
func (t *turn) fit(ctx context.Context, h *history) (string, error) {
	first := t.first(h, t.a.cfg.History)
	if first == 0 {
		t.trim(plugins.PromptSummarised, h.note.UpTo, "Turns up to this message are summed up")
		return h.note.Text, nil
	}
	if t.a.cfg.Summarise {
		first = t.first(h, t.a.cfg.History/2)
	}
	out := h.turns[:first]
	h.turns = h.turns[first:]
	var done trimmed
	err := t.run.Do(ctx, "history", &done, func(ctx context.Context) error {
		done = trimmed{Turns: len(out)}
		if !t.a.cfg.Summarise {
			return nil
		}
		return t.summarize(ctx, h.note.Text, out, &done)
	})
	if err != nil {
		return "", shown(err)
	}
	t.leavesOut = agui.Compaction{Dropped: len(out), Summarised: done.Note != ""}
	if done.Call != nil {
		t.count(done.Call.Usage)
	}
	upTo, why := out[len(out)-1], fmt.Sprintf("%d turns up to this message do not fit into the history of %d tokens", len(out), t.a.cfg.History)
	if done.Note == "" {
		t.trim(plugins.PromptDropped, upTo[len(upTo)-1].ID, why)
		return h.note.Text, nil
	}
	t.trim(plugins.PromptSummarised, upTo[len(upTo)-1].ID, why)
	return done.Note, nil
}

// trim notes the omissions of the history, if there are any.
func (t *turn) trim(kind, upTo, why string) {
	if upTo != "" {
		t.trimmed = plugins.PromptChange{Kind: kind, Of: upTo, Why: why}
	}
}

// trimmed is the record of omitted turns.
type trimmed struct {
	Turns int                `json:"turns"`
	Note  string             `json:"note,omitempty"`
	Call  *plugins.ModelCall `json:"call,omitempty"`
}

// first returns the first turn from which all fit into the budget, at least the last one.
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

// summarize makes the model summarize turns together with the summary of earlier ones. If that fails, the turns are dropped
// without a summary.
func (t *turn) summarize(ctx context.Context, before string, turns [][]agui.Message, done *trimmed) error {
	var said strings.Builder
	if before != "" {
		said.WriteString("Earlier, summed up: " + before + "\n\n")
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
	most := 4 * t.a.cfg.History
	if room := t.room(); room > 0 {
		most = min(most, 2*room) // half of it
	}
	if len(text) > most {
		text = "…" + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	const task = "Sum up this conversation for a colleague who goes on with it: facts, decisions, names, numbers, what is open. Use few words. Write the summary alone."
	req := Request{Options: t.a.cfg.Options, Messages: []llms.MessageContent{
		llms.TextParts(llms.ChatMessageTypeSystem, task), llms.TextParts(llms.ChatMessageTypeHuman, text),
	}}
	spent := counter{ctx: ctx, run: t.run}
	resp, err := t.stream(ctx, t.a.models[0], false, req, nil, func(p Piece) error {
		if p.Usage != nil {
			return spent.add(*p.Usage)
		}
		return nil
	})
	if resp.Usage != (agui.TokenUsage{}) {
		done.Call = &plugins.ModelCall{Usage: limited(resp.Usage)}
		if countErr := spent.end(*done.Call, false); countErr != nil {
			return countErr
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, plugins.ErrWaiting) { // for a budget
		return err
	}
	last := turns[len(turns)-1]
	n := note{UpTo: last[len(last)-1].ID, Text: clip(strings.TrimSpace(resp.Text), most/4)}
	if err != nil || n.Text == "" {
		return nil //nolint:nilerr // the turn continues without a summary
	}
	done.Note = n.Text
	return t.run.Remember("", summaryKey(n.UpTo), n.Text)
}

// maxSaid limits the part of a message used for a summary, in bytes.
const maxSaid = 4000

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
