package tail

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Sender describes the client's request that a span answers. Its stream differs from the log in three ways. It omits the
// messages of the request, which the client would show twice. It adds the state at the span's start if the client has
// another one, because the following deltas apply to it. It adds the messages behind a retraction, which clients ignore.
type Sender struct {
	Messages []string        // ids of the user's messages
	Results  []string        // tool calls whose results it brought
	State    json.RawMessage // empty for none
	Before   json.RawMessage // the thread's state before the span; nil to read it
}

// repeatsRequest reports whether rec repeats a message or result of the request.
func (r *RunCursor) repeatsRequest(rec *Record) bool {
	switch ev := rec.Event.(type) {
	case agui.ToolCallResult:
		return r.results[ev.ToolCallID]
	case agui.TextMessageStart:
		return r.messages[ev.MessageID]
	case agui.TextMessageContent:
		return r.messages[ev.MessageID]
	case agui.TextMessageEnd:
		return r.messages[ev.MessageID]
	}
	return false
}

// setOf returns the members of list.
func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, s := range list {
		set[s] = true
	}
	return set
}

// withState inserts the state before the span behind its RUN_STARTED if the sender has another.
func (r *RunCursor) withState(ctx context.Context, recs []*Record) ([]*Record, error) {
	first, behind := r.stateDue, 0
	if recs[0].Event.Type() == agui.TypeRunStarted {
		first, behind = recs[0].ID, 1
	}
	if first == 0 {
		return recs, nil
	}
	state, err := r.stateBefore(ctx, first)
	if err == nil {
		r.stateDue = 0
	}
	if err != nil || state == nil || r.sender.State != nil && equalJSON(state, r.sender.State) { // a client without a state does not have {} either
		return recs, err
	}
	at := recs[0].Event.Common().Timestamp
	ev := agui.StateSnapshot{Base: agui.Base{ThreadID: r.t.id, RunID: r.id, Timestamp: at}, Snapshot: state}
	return slices.Insert(slices.Clone(recs), behind, NewRecord(0, r.run, ev, len(state))), nil
}

// withMessages is Restated. A reader that has resumed behind a retraction gets the messages first.
func (r *RunCursor) withMessages(ctx context.Context, recs []*Record) ([]*Record, error) {
	restated, err := r.Restated(ctx, recs)
	if err != nil || r.resumed == 0 {
		return restated, err
	}
	if len(restated) == len(recs) {
		at, err := r.t.readRecord(ctx, r.resumed)
		if err != nil {
			return nil, err
		}
		if at != nil && at.Retracts() {
			restated, err = r.Restated(ctx, append([]*Record{at}, recs...))
			if err != nil {
				return nil, err
			}
			restated = restated[1:]
		}
	}
	r.resumed = 0
	return restated, nil
}

// stateBefore returns the thread's state before the span that begins with event first, nil if the request's own state
// replaced it.
func (r *RunCursor) stateBefore(ctx context.Context, first int64) (json.RawMessage, error) {
	replaced := string(StateOf(r.sender.State)) != "{}"
	switch {
	case r.sender.Before != nil && replaced, first == 1 && replaced:
		return nil, nil
	case r.sender.Before != nil:
		return r.sender.Before, nil
	case first == 1: // the log's first span
		return json.RawMessage("{}"), nil
	}
	spans, err := r.t.logs.cfg.Store.Spans(ctx, r.run)
	i := slices.IndexFunc(spans, func(s data.Span) bool { return s.First == first })
	if err != nil || i < 0 || i == 0 && replaced { // the span was deleted
		return nil, err
	}
	return spans[i].State, nil
}

// StateOf returns the state of a request, {} for none.
func StateOf(raw json.RawMessage) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" || raw[0] == '{' && len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

// equalJSON reports whether a and b are equal JSON values.
func equalJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	decode := func(raw json.RawMessage) (v any, err error) {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber() // large integers differ, which are equal as float64
		err = d.Decode(&v)
		return v, err
	}
	x, errX := decode(a)
	y, errY := decode(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}
