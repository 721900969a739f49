package work

import (
	"context"
	"encoding/json"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
	"github.com/batonrun/baton/runtime/log"
	"github.com/batonrun/baton/runtime/model"
)

// load reads what the run's generation has come to: where it began, its nodes, steps, records and messages.
func (l *live) load(ctx context.Context, r model.Reader, run *model.Run, spans []model.Span) error {
	for _, s := range spans {
		if s.Generation == run.Generation {
			l.span.began = began{state: s.State, upTo: s.First}
			if s.N > 1 {
				break
			}
			var err error
			if l.span.began.state, err = l.begunWith(ctx, r, run, &s); err != nil {
				return err
			}
			break
		}
	}
	if err := l.nodes.load(ctx, r, run); err != nil {
		return err
	}
	memos, err := r.Memos(ctx, run.Key, run.Generation)
	if err != nil {
		return err
	}
	l.journal.load(memos)
	for i := range memos {
		if m := &memos[i]; m.Tool != "" {
			l.span.calls[m.CallID] = m.Tool
		}
	}
	return l.loadMessages(ctx, r, run, spans)
}

// begunWith is the state that the run's first span began with. What a rollback has restored its log tells: the runs that
// were rolled back may be gone.
func (l *live) begunWith(ctx context.Context, r model.Reader, run *model.Run, span *model.Span) (json.RawMessage, error) {
	switch {
	case l.input.State != nil:
		return l.input.State, nil
	case !run.RollBack:
		return span.State, nil
	}
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

// loadMessages gives the writer the messages of the run, so that later events can change them.
func (l *live) loadMessages(ctx context.Context, r model.Reader, run *model.Run, spans []model.Span) error {
	asked := make(map[int64]bool, len(spans)) // by the events that its spans begin with
	for i := range spans {
		asked[spans[i].First] = true
	}
	l.span.brought = make(map[string]bool)
	var known []agui.Message
	for after := int64(0); ; {
		msgs, err := r.RunMessages(ctx, run.Project, run.Key, after, log.LatestMessages)
		if err != nil {
			return err
		}
		for i := range msgs.Rows {
			m := &msgs.Rows[i]
			if after = m.Key; m.State == model.MessageConsumed {
				l.span.messages[m.ID] = m
				known = append(known, m.Message)
				if m.EventID < l.span.began.upTo || asked[m.EventID] {
					l.span.brought[m.ID] = true
				}
			}
		}
		if !msgs.More {
			break
		}
	}
	l.span.fold = l.folded(l.span.thread.State, known)
	return nil
}

// folded is what messages of the run come to, of which those count that its generation has said: neither what it was asked, nor what
// earlier ones have said.
func (l *live) folded(state json.RawMessage, messages []agui.Message) *fold.Fold {
	f := fold.New(state, messages)
	for i := range messages {
		if l.span.brought[messages[i].ID] {
			f.Brought(messages[i].ID)
		}
	}
	return f
}

// page is how many rows or events are read at once.
const page = 500
