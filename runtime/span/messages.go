package span

import (
	"cmp"
	"iter"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/fold"
)

// Messages are the rows of a run's messages, by id, with a number in the thread or waiting for one.
type Messages struct {
	thread, run int64 // keys
	rows        map[string]*data.Message
	seq         int64 // of the thread's last message
}

// number numbers the messages that ev begins or has changed. It depends only on the log, so that a reader of a span numbers
// its messages like the writer.
func (ms *Messages) number(ev agui.Event, changed []string, f *fold.Fold) {
	switch e := ev.(type) {
	case agui.TextMessageStart:
		ms.begin(e.MessageID, f)
	case agui.ReasoningMessageStart:
		ms.begin(e.MessageID, f)
	case agui.ToolCallStart:
		ms.reserve(e.ParentMessageID, f)
		ms.reserve(e.ToolCallID, f) // the id of the message the fold makes where there is no parent
	case agui.MessagesSnapshot:
		return
	}
	for _, id := range changed {
		ms.reserve(id, f)
	}
}

// reserve gives a message its seq when it begins: messages are in the order in which they began, as in clients, and not in
// the order in which parallel workers complete them. The same clock sets the message's day in the history at the same
// moment, so that seqs rise over the days: a message that had to wait does not have the day on which it was accepted.
func (ms *Messages) reserve(id string, f *fold.Fold) {
	if m := ms.rows[id]; m != nil && m.Seq != 0 {
		return
	}
	msg, ok := f.Message(id)
	if !ok {
		return
	}
	if m := ms.rowOf(id); m.Seq == 0 {
		ms.seq++
		m.Seq = ms.seq
		if msg.Role != agui.RoleReasoning && msg.Role != agui.RoleActivity {
			m.Day = time.Now().UTC().Truncate(24 * time.Hour)
		}
	}
}

// begin reserves the number of a message. A message that a crash has cut short is shown again when its worker continues it
// under the same id.
func (ms *Messages) begin(id string, f *fold.Fold) {
	ms.reserve(id, f)
	if m := ms.rowOf(id); m.State == data.MessageHidden {
		m.State = data.MessageConsumed
	}
}

// rowOf returns the row of a message, a new one if it has none.
func (ms *Messages) rowOf(id string) *data.Message {
	m := ms.rows[id]
	if m == nil {
		m = &data.Message{ThreadKey: ms.thread, RunKey: ms.run}
		ms.rows[id] = m
	}
	return m
}

// row returns the row of a message in its current form in the log, whose last event is last.
func (ms *Messages) row(id string, last int64, f *fold.Fold) *data.Message {
	m := ms.rowOf(id)
	if m.EventID == 0 {
		m.EventID, m.State = last, data.MessageConsumed
	}
	if msg, ok := f.Message(id); ok {
		if m.Encoded != nil && !reflect.DeepEqual(m.Message, msg) { // else a large message would be encoded again, in the transaction
			m.Encoded = nil
		}
		m.Message = msg
	} else {
		m.State = data.MessageHidden // an activity that was replaced
	}
	row := *m
	m.Encoded = nil // it is large, and the span lasts as long as the run
	return &row
}

// Has reports whether the run has a message of that id, which may not have begun yet.
func (ms *Messages) Has(id string) bool { return ms.rows[id] != nil }

// SeqOf returns the number of a message of the run, 0 if it has none.
func (ms *Messages) SeqOf(id string) int64 {
	if m := ms.rows[id]; m != nil {
		return m.Seq
	}
	return 0
}

// All yields the rows.
func (ms *Messages) All() iter.Seq[*data.Message] { return maps.Values(ms.rows) }

// Partial returns those of the messages without a stored row, as they are now.
func (ms *Messages) Partial(of []agui.Message) (list []data.Message) {
	for _, m := range of {
		if row := ms.rows[m.ID]; row != nil && row.EventID == 0 {
			list = append(list, data.Message{Seq: row.Seq, Message: m})
		}
	}
	return list
}

// shows reports whether a complete message of the run is in prompts.
func (ms *Messages) shows(id string) bool {
	m := ms.rows[id]
	return m != nil && m.EventID != 0 && m.State == data.MessageConsumed && m.Role != agui.RoleUser
}

// hide adds the rows that hide retracted messages: of the run, and the messages of people in earlier runs that a guard has refused.
func (sp *Span) hide(it *commit.Item, ids []string) {
	for _, id := range ids {
		sp.retracted[id] = true
		sp.cut = slices.DeleteFunc(sp.cut, func(cut string) bool { return cut == id })
		if m := sp.Messages.rows[id]; m != nil {
			if m.EventID == 0 || m.State != data.MessageConsumed {
				continue
			}
			m.State = data.MessageHidden
		}
		it.Rows = append(it.Rows, &data.Hide{ThreadKey: sp.Thread.Key, ID: id})
	}
}

// HideCompleted hides messages that the item completes.
func (sp *Span) HideCompleted(it *commit.Item, ids map[string]bool) {
	for _, row := range it.Rows {
		if m, ok := row.(*data.Message); ok && ids[m.ID] {
			m.State, sp.Messages.rows[m.ID].State = data.MessageHidden, data.MessageHidden
		}
	}
}

// RetractCut stages the retraction of the messages that were hidden as they ended.
func (sp *Span) RetractCut(it *commit.Item) error { return sp.retract(it, sp.cut) }

// RetractRepeated stages the retraction of messages that are emitted again: of the unended ones those that are hidden already, so that
// readers that fold the log hide them too, and those that Dos have shown. One of a call with a record stays.
func (sp *Span) RetractRepeated(it *commit.Item, unended, shown []string, recorded map[string]bool) error {
	made := func(c agui.ToolCall) bool { return recorded[c.ID] }
	ids := slices.DeleteFunc(unended, func(id string) bool {
		m := sp.Messages.rows[id]
		return m == nil || m.State != data.MessageHidden
	})
	for _, id := range shown {
		m, ok := sp.Fold.Message(id)
		row := sp.Messages.rows[id]
		isCut := row != nil && row.State == data.MessageHidden && !sp.retracted[id]
		if ok && !slices.ContainsFunc(m.ToolCalls, made) && (isCut || sp.Messages.shows(id)) {
			ids = append(ids, id)
		}
	}
	return sp.retract(it, ids)
}

// retract stages the retraction of messages, and of the results of their calls.
func (sp *Span) retract(it *commit.Item, ids []string) error {
	ids = sp.withResults(ids)
	if len(ids) == 0 {
		return nil
	}
	return sp.Stage(it, agui.Retracted(ids))
}

// withResults adds the shown results of the messages' calls, and returns all ids in the order of the thread.
func (sp *Span) withResults(ids []string) []string {
	gone := make(map[string]bool) // calls
	for _, id := range ids {
		m, _ := sp.Fold.Message(id)
		for _, c := range m.ToolCalls {
			gone[c.ID] = true
		}
	}
	if len(gone) > 0 {
		for _, m := range sp.Fold.Messages() {
			if gone[m.ToolCallID] && sp.Messages.shows(m.ID) {
				ids = append(ids, m.ID)
			}
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(sp.Messages.rows[a].Seq, sp.Messages.rows[b].Seq) })
	return slices.Compact(ids)
}
