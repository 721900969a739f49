package span

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// without removes from messages everything that the events of the open span will add again, because the rows of the messages
// have it already: calls that the span began, and texts that it continued and ended.
func without(messages []agui.Message, span []agui.Event) {
	texts := make(map[string]*added, len(messages))
	for i := range messages {
		texts[messages[i].ID] = &added{}
	}
	begun := make(map[string]bool)
	for _, ev := range span {
		switch e := ev.(type) {
		case agui.ToolCallStart:
			begun[e.ToolCallID] = true
		case agui.TextMessageContent:
			if t := texts[e.MessageID]; t != nil {
				t.text = append(t.text, e.Delta...)
			}
		case agui.TextMessageEnd:
			if t := texts[e.MessageID]; t != nil {
				t.ended = len(t.text)
			}
		}
	}
	for i := range messages {
		m := &messages[i]
		t := texts[m.ID]
		m.Content = strings.TrimSuffix(m.Content, string(t.text[:t.ended]))
		if slices.ContainsFunc(m.ToolCalls, func(c agui.ToolCall) bool { return begun[c.ID] }) {
			m.ToolCalls = slices.DeleteFunc(slices.Clone(m.ToolCalls), func(c agui.ToolCall) bool { return begun[c.ID] })
		}
	}
}

// added is the text that a span has added to an earlier message, and how much of it has ended.
type added struct {
	text  []byte
	ended int
}

// Replay reads the open span's events into the verifier and the fold, after LoadMessages. owed returns the calls of earlier spans that have
// their results in this one, which has these calls and results.
func (sp *Span) Replay(ctx context.Context, r data.Reader, owed func(begun, answered map[string]bool) []string) error {
	before := make([]agui.Message, 0, len(sp.messages))
	for _, m := range sp.Fold.Messages() {
		if sp.messages[m.ID].EventID < sp.Row.First {
			before = append(before, m)
		} else {
			delete(sp.messages, m.ID) // the span begins it
		}
	}
	var evs []agui.Event
	begun, answered := make(map[string]bool), make(map[string]bool)
	for {
		stored, err := r.Events(ctx, sp.Thread.Key, sp.last, page)
		if err != nil {
			return err
		}
		for i := range stored {
			ev, err := agui.Decode(stored[i].Payload)
			if err != nil {
				return fmt.Errorf("event %d: %w", stored[i].ID, err)
			}
			switch e := ev.(type) {
			case agui.ToolCallStart:
				begun[e.ToolCallID] = true
				sp.calls[e.ToolCallID] = e.ToolCallName
			case agui.ToolCallResult:
				answered[e.ToolCallID] = true
			case agui.Custom:
				for _, id := range agui.RetractedBy(e) {
					sp.retracted[id] = true
				}
			}
			evs = append(evs, ev)
			sp.last = stored[i].ID
		}
		if len(stored) == 0 {
			break
		}
	}
	without(before, evs)
	sp.Fold = sp.folded(sp.Row.State, before)
	for i, ev := range evs {
		if err := sp.Ver.Add(ev); err != nil {
			return fmt.Errorf("event %d: %w", sp.Row.First+int64(i), err)
		}
		if i == 0 {
			sp.Ver.Owe(owed(begun, answered)...)
		}
		changed, err := sp.Fold.Apply(ev)
		if err != nil {
			return fmt.Errorf("event %d: %w", sp.Row.First+int64(i), err)
		}
		sp.number(ev, changed)
	}
	return sp.loadBegun(ctx, r)
}

// loadBegun reads the rows of the messages that the span has begun, and completed or hidden since. A message without a row
// was open when its writer stopped; its day is not later than the day of any message after it.
func (sp *Span) loadBegun(ctx context.Context, r data.Reader) error {
	var begun []string
	for id, m := range sp.messages {
		if m.EventID == 0 {
			begun = append(begun, id)
		}
	}
	rows, err := r.MessagesByID(ctx, sp.Thread.Key, begun)
	if err != nil {
		return err
	}
	for i := range rows {
		if rows[i].RunKey == sp.runKey && rows[i].Seq > 0 {
			sp.messages[rows[i].ID] = &rows[i]
		}
	}
	last, err := r.LastSeq(ctx, sp.Thread.Key)
	sp.seq = max(sp.seq, last)
	for _, id := range begun {
		m := sp.messages[id]
		if m.EventID != 0 {
			continue
		}
		for i := range rows {
			if rows[i].Seq > m.Seq && !rows[i].Day.IsZero() && rows[i].Day.Before(m.Day) {
				m.Day = rows[i].Day
			}
		}
	}
	return err
}
