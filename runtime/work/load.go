package work

import (
	"context"
	"encoding/json"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
	"github.com/batonrun/baton/runtime/log"
	"github.com/batonrun/baton/runtime/model"
)

// reading reads back what a run has come to: its generation from the rows, and its open span from the log.
type reading struct {
	*live
	row   *model.Run
	spans []model.Span
}

// load reads what the run's generation has come to: where it began, its nodes, steps, records and messages.
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
	if err := rd.nodes.load(ctx, rd.en.store, rd.row); err != nil {
		return err
	}
	memos, err := rd.en.store.Memos(ctx, rd.row.Key, rd.row.Generation)
	if err != nil {
		return err
	}
	rd.journal.load(memos)
	for i := range memos {
		if m := &memos[i]; m.Tool != "" {
			rd.span.calls[m.CallID] = m.Tool
		}
	}
	return rd.loadMessages(ctx)
}

// begunWith is the state that the run's first span began with. What a rollback has restored its log tells: the runs that
// were rolled back may be gone.
func (rd *reading) begunWith(ctx context.Context, span *model.Span) (json.RawMessage, error) {
	switch {
	case rd.input.State != nil:
		return rd.input.State, nil
	case !rd.row.RollBack:
		return span.State, nil
	}
	stored, err := rd.en.store.Events(ctx, span.ThreadKey, span.First-1, page)
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

// loadMessages gives the writer the messages of the run, so that later events can change them.
func (rd *reading) loadMessages(ctx context.Context) error {
	asked := make(map[int64]bool, len(rd.spans)) // by the events that its spans begin with
	for i := range rd.spans {
		asked[rd.spans[i].First] = true
	}
	rd.span.brought = make(map[string]bool)
	var known []agui.Message
	for after := int64(0); ; {
		msgs, err := rd.en.store.RunMessages(ctx, rd.row.Project, rd.row.Key, after, log.LatestMessages)
		if err != nil {
			return err
		}
		for i := range msgs.Rows {
			m := &msgs.Rows[i]
			if after = m.Key; m.State == model.MessageConsumed {
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

// folded is what messages of the run come to, of which those count that its generation has said: neither what it was asked, nor what
// earlier ones have said.
func (sp *span) folded(state json.RawMessage, messages []agui.Message) *fold.Fold {
	f := fold.New(state, messages)
	for i := range messages {
		if sp.brought[messages[i].ID] {
			f.Brought(messages[i].ID)
		}
	}
	return f
}

// page is how many rows or events are read at once.
const page = 500
