package span

import (
	"context"
	"encoding/json"
	"slices"

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
		msgs, err := r.RunMessages(ctx, run.Project, run.Key, after, tail.LatestMessages)
		if err != nil {
			return err
		}
		for i := range msgs.Rows {
			m := &msgs.Rows[i]
			if after = m.Key; m.State == data.MessageConsumed {
				sp.messages[m.ID] = m
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
