package span

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/fold"
	"github.com/batonrun/baton/runtime/tail"
)

// LoadBeginning reads the beginning of the run's generation. state is the one that the run was started with, nil for the thread's.
func (sp *Span) LoadBeginning(ctx context.Context, r data.Reader, run *data.Run, spans []data.Span, state json.RawMessage) (err error) {
	i := slices.IndexFunc(spans, func(s data.Span) bool { return s.Generation == run.Generation })
	if i < 0 {
		return nil
	}
	sp.Began = Began{State: spans[i].State, UpTo: spans[i].First}
	switch {
	case spans[i].N > 1:
	case state != nil:
		sp.Began.State = state
	case run.RollBack:
		sp.Began.State, err = restored(ctx, r, &spans[i])
	}
	return err
}

// restored returns the state that a rollback has restored at the beginning of a span. It is read from the log: the rolled back runs may be
// gone.
func restored(ctx context.Context, r data.Reader, span *data.Span) (json.RawMessage, error) {
	stored, err := r.Events(ctx, span.ThreadKey, span.First-1, page)
	if err != nil {
		return nil, err
	}
	for i := range stored {
		switch stored[i].Kind {
		case agui.TypeStateSnapshot:
			ev, err := agui.Decode(stored[i].Payload)
			if snapshot, ok := ev.(agui.StateSnapshot); ok {
				return snapshot.Snapshot, err
			}
			return span.State, err
		case agui.TypeStepStarted:
			return span.State, nil
		}
	}
	return span.State, nil
}

// LoadMessages reads the messages of the run, and takes its calls from its records, so that later events can change them.
func (sp *Span) LoadMessages(ctx context.Context, r data.Reader, run *data.Run, spans []data.Span, records []data.Memo) error {
	for i := range records {
		if m := &records[i]; m.Tool != "" {
			sp.calls[m.CallID] = m.Tool
		}
	}
	asked := make(map[int64]bool, len(spans)) // events that begin the run's spans
	for i := range spans {
		asked[spans[i].First] = true
	}
	sp.brought = make(map[string]bool)
	var known []agui.Message
	for after := int64(0); ; {
		msgs, err := r.ByProject().RunMessages(ctx, run.Project, run.Key, after, tail.LatestMessages)
		if err != nil {
			return err
		}
		for i := range msgs.Rows {
			m := &msgs.Rows[i]
			if after = m.Key; m.State == data.MessageConsumed {
				sp.Messages.rows[m.ID] = m
				known = append(known, m.Message)
				if m.EventID < sp.Began.UpTo || asked[m.EventID] {
					sp.brought[m.ID] = true
				}
			}
		}
		if !msgs.More {
			break
		}
	}
	sp.Fold = sp.folded(sp.Thread.State, known)
	return nil
}

// folded returns the fold of the run's messages. Only the output of the run's generation counts towards its size, not its
// input and not the output of earlier generations.
func (sp *Span) folded(state json.RawMessage, messages []agui.Message) *fold.Fold {
	f := fold.New(state, messages)
	for i := range messages {
		if sp.brought[messages[i].ID] {
			f.Brought(messages[i].ID)
		}
	}
	return f
}

// page is the number of rows or events in one read.
const page = 500

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
	before := make([]agui.Message, 0, len(sp.Messages.rows))
	for _, m := range sp.Fold.Messages() {
		if sp.Messages.rows[m.ID].EventID < sp.Row.First {
			before = append(before, m)
		} else {
			delete(sp.Messages.rows, m.ID) // the span begins it
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
		sp.Messages.number(ev, changed, sp.Fold)
	}
	return sp.loadBegun(ctx, r)
}

// loadBegun reads the rows of the messages that the span has begun, and completed or hidden since. A message without a row
// was open when its writer stopped; its day is not later than the day of any message after it.
func (sp *Span) loadBegun(ctx context.Context, r data.Reader) error {
	var begun []string
	for id, m := range sp.Messages.rows {
		if m.EventID == 0 {
			begun = append(begun, id)
		}
	}
	rows, err := r.MessagesByID(ctx, sp.Thread.Key, begun)
	if err != nil {
		return err
	}
	for i := range rows {
		if rows[i].RunKey == sp.Row.RunKey && rows[i].Seq > 0 {
			sp.Messages.rows[rows[i].ID] = &rows[i]
		}
	}
	last, err := r.LastSeq(ctx, sp.Thread.Key)
	sp.Messages.seq = max(sp.Messages.seq, last)
	for _, id := range begun {
		m := sp.Messages.rows[id]
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
