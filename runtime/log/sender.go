package log

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
)

// Sender is who has sent the request that a span answers, as far as that tells. What such a reader is shown differs from the
// log in two ways: it is not told what it has said itself, which it would show twice, and it is told the state that the span
// begins with if it has another, which the deltas behind it would not apply to, and which it would send back.
type Sender struct {
	Messages []string        // the ids of its user's messages
	Results  []string        // the tool calls whose results it has given
	State    json.RawMessage // empty for none
	Before   json.RawMessage // the thread's as the span begins, nil where that is to be read
}

// has reports whether the sender has what rec tells in a message of its own.
func (s *Sender) has(rec *Record) bool {
	switch ev := rec.Event.(type) {
	case agui.ToolCallResult:
		return slices.Contains(s.Results, ev.ToolCallID)
	case agui.TextMessageStart:
		return slices.Contains(s.Messages, ev.MessageID)
	case agui.TextMessageContent:
		return slices.Contains(s.Messages, ev.MessageID)
	case agui.TextMessageEnd:
		return slices.Contains(s.Messages, ev.MessageID)
	}
	return false
}

// mended returns recs with the state that the span begins with behind its RUN_STARTED, if the sender has another.
func (r *RunCursor) mended(ctx context.Context, recs []*Record) ([]*Record, error) {
	first, behind := r.owes, 0
	if recs[0].Event.Type() == agui.TypeRunStarted {
		first, behind = recs[0].ID, 1
	}
	if first == 0 {
		return recs, nil
	}
	state, err := r.before(ctx, first)
	if err == nil {
		r.owes = 0
	}
	if err != nil || state == nil || same(state, r.sender.State) { // a client that has none has not {} either
		return recs, err
	}
	at := recs[0].Event.Common().Timestamp
	ev := agui.StateSnapshot{Base: agui.Base{ThreadID: r.t.id, RunID: r.id, Timestamp: at}, Snapshot: state}
	return slices.Insert(slices.Clone(recs), behind, NewRecord(0, r.run, ev, len(state))), nil
}

// before is the state before the run's span that begins with that event, nil when the log tells what the request has made of it.
func (r *RunCursor) before(ctx context.Context, first int64) (json.RawMessage, error) {
	replaced := string(StateOf(r.sender.State)) != "{}"
	switch {
	case r.sender.Before != nil && replaced, first == 1 && replaced:
		return nil, nil
	case r.sender.Before != nil:
		return r.sender.Before, nil
	case first == 1: // nothing was before it
		return json.RawMessage("{}"), nil
	}
	spans, err := r.t.logs.cfg.Store.Spans(ctx, r.run)
	i := slices.IndexFunc(spans, func(s model.Span) bool { return s.First == first })
	if err != nil || i < 0 || i == 0 && replaced { // a span that is not there was deleted
		return nil, err
	}
	return spans[i].State, nil
}

// StateOf is the state that a request brings, {} for none.
func StateOf(raw json.RawMessage) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" || raw[0] == '{' && len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

// same reports whether a and b are the same value. What is empty equals nothing.
func same(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
