package work

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
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

// replay reads the open span's events into the verifier and the fold, after the messages from before the span.
func (rd *reading) replay(ctx context.Context, before []agui.Message) error {
	var evs []agui.Event
	begun, answered := make(map[string]bool), make(map[string]bool)
	for {
		stored, err := rd.store.Events(ctx, rd.span.thread.Key, rd.span.last, page)
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
				rd.span.calls[e.ToolCallID] = e.ToolCallName
			case agui.ToolCallResult:
				answered[e.ToolCallID] = true
			case agui.Custom:
				for _, id := range agui.RetractedBy(e) {
					rd.span.retracted[id] = true
				}
			}
			evs = append(evs, ev)
			rd.span.last = stored[i].ID
		}
		if len(stored) == 0 {
			break
		}
	}
	without(before, evs)
	rd.span.fold = rd.span.folded(rd.span.row.State, before)
	for i, ev := range evs {
		if err := rd.span.ver.Add(ev); err != nil {
			return fmt.Errorf("event %d: %w", rd.span.row.First+int64(i), err)
		}
		if i == 0 {
			rd.span.ver.Owe(rd.journal.Owed(begun, answered)...)
		}
		changed, err := rd.span.fold.Apply(ev)
		if err != nil {
			return fmt.Errorf("event %d: %w", rd.span.row.First+int64(i), err)
		}
		rd.span.number(ev, changed)
	}
	return rd.loadBegun(ctx)
}

// loadBegun reads the rows of the messages that the span has begun, and completed or hidden since. A message without a row
// was open when its writer stopped; its day is not later than the day of any message after it.
func (rd *reading) loadBegun(ctx context.Context) error {
	var begun []string
	for id, m := range rd.span.messages {
		if m.EventID == 0 {
			begun = append(begun, id)
		}
	}
	rows, err := rd.store.MessagesByID(ctx, rd.span.thread.Key, begun)
	if err != nil {
		return err
	}
	for i := range rows {
		if rows[i].RunKey == rd.row.Key && rows[i].Seq > 0 {
			rd.span.messages[rows[i].ID] = &rows[i]
		}
	}
	last, err := rd.store.LastSeq(ctx, rd.span.thread.Key)
	rd.span.seq = max(rd.span.seq, last)
	for _, id := range begun {
		m := rd.span.messages[id]
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
