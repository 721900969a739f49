package work

import (
	"context"
	"encoding/json"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/fold"
	"github.com/batonrun/baton/runtime/journal"
	"github.com/batonrun/baton/runtime/plan"
	"github.com/batonrun/baton/runtime/tail"
)

// reading restores the state of a run: its generation from the rows, and its open span from the log.
type reading struct {
	store   data.Store
	span    *span
	nodes   *plan.Plan
	journal *journal.Journal
	state   json.RawMessage // of the run's input
	row     *data.Run
	spans   []data.Span
}

func newReading(l *live, row *data.Run, spans []data.Span) *reading {
	return &reading{l.en.store, l.span, l.nodes, l.journal, l.input.State, row, spans}
}

// load reads the state of the run's generation: its beginning, nodes, steps, records and messages.
func (rd *reading) load(ctx context.Context) error {
	for _, s := range rd.spans {
		if s.Generation == rd.row.Generation {
			rd.span.began = began{state: s.State, upTo: s.First}
			if s.N > 1 {
				break
			}
			var err error
			if rd.span.began.state, err = rd.begunWith(ctx, &s); err != nil {
				return err
			}
			break
		}
	}
	if err := rd.nodes.Load(ctx, rd.store, rd.row); err != nil {
		return err
	}
	memos, err := rd.store.Memos(ctx, rd.row.Key, rd.row.Generation)
	if err != nil {
		return err
	}
	rd.journal.Load(memos)
	for i := range memos {
		if m := &memos[i]; m.Tool != "" {
			rd.span.calls[m.CallID] = m.Tool
		}
	}
	return rd.loadMessages(ctx)
}

// begunWith returns the state at the beginning of the run's first span. The state that a rollback has restored is read from
// the log: the rolled back runs may be gone.
func (rd *reading) begunWith(ctx context.Context, span *data.Span) (json.RawMessage, error) {
	switch {
	case rd.state != nil:
		return rd.state, nil
	case !rd.row.RollBack:
		return span.State, nil
	}
	stored, err := rd.store.Events(ctx, span.ThreadKey, span.First-1, page)
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

// loadMessages loads the messages of the run into its span, so that later events can change them.
func (rd *reading) loadMessages(ctx context.Context) error {
	asked := make(map[int64]bool, len(rd.spans)) // events that begin the run's spans
	for i := range rd.spans {
		asked[rd.spans[i].First] = true
	}
	rd.span.brought = make(map[string]bool)
	var known []agui.Message
	for after := int64(0); ; {
		msgs, err := rd.store.RunMessages(ctx, rd.row.Project, rd.row.Key, after, tail.LatestMessages)
		if err != nil {
			return err
		}
		for i := range msgs.Rows {
			m := &msgs.Rows[i]
			if after = m.Key; m.State == data.MessageConsumed {
				rd.span.messages[m.ID] = m
				known = append(known, m.Message)
				if m.EventID < rd.span.began.upTo || asked[m.EventID] {
					rd.span.brought[m.ID] = true
				}
			}
		}
		if !msgs.More {
			break
		}
	}
	rd.span.fold = rd.span.folded(rd.span.thread.State, known)
	return nil
}

// folded returns the fold of the run's messages. Only the output of the run's generation counts towards its size, not its
// input and not the output of earlier generations.
func (sp *span) folded(state json.RawMessage, messages []agui.Message) *fold.Fold {
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
