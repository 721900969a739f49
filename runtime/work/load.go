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
			l.began = began{state: s.State, upTo: s.First}
			if s.N > 1 {
				break
			}
			var err error
			if l.began.state, err = l.begunWith(ctx, r, run, &s); err != nil {
				return err
			}
			break
		}
	}
	if err := l.loadSteps(ctx, r, run); err != nil {
		return err
	}
	memos, err := r.Memos(ctx, run.Key, run.Generation)
	if err != nil {
		return err
	}
	for i := range memos {
		m := &memos[i]
		l.know(m)
		l.remember(m)
		if m.Tool != "" {
			l.calls[m.CallID] = m.Tool
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

// loadSteps reads the rows of the run's nodes and steps.
func (l *live) loadSteps(ctx context.Context, r model.Reader, run *model.Run) error {
	nodes, err := r.Nodes(ctx, run.Key)
	if err != nil {
		return err
	}
	for i := range nodes {
		l.nodes[nodes[i].NodeID] = &nodes[i]
	}
	for _, n := range l.graph.Nodes {
		if l.nodes[n.ID] == nil { // its first row comes with its step
			l.nodes[n.ID] = &model.Node{RunKey: run.Key, NodeID: n.ID, Status: model.Pending}
		}
	}
	for after := 0; ; {
		steps, err := r.Steps(ctx, run.Project, run.Key, after, page)
		if err != nil {
			return err
		}
		for i := range steps.Rows {
			s := &steps.Rows[i]
			if l.count = s.Number; s.Generation == run.Generation {
				l.steps[s.NodeID] = s
			}
		}
		if !steps.More {
			break
		}
		after = l.count
	}
	return nil
}

// loadMessages gives the writer the messages of the run, so that later events can change them.
func (l *live) loadMessages(ctx context.Context, r model.Reader, run *model.Run, spans []model.Span) error {
	asked := make(map[int64]bool, len(spans)) // by the events that its spans begin with
	for i := range spans {
		asked[spans[i].First] = true
	}
	l.brought = make(map[string]bool)
	var known []agui.Message
	for after := int64(0); ; {
		msgs, err := r.RunMessages(ctx, run.Project, run.Key, after, log.LatestMessages)
		if err != nil {
			return err
		}
		for i := range msgs.Rows {
			m := &msgs.Rows[i]
			if after = m.Key; m.State == model.MessageConsumed {
				l.w.messages[m.ID] = m
				known = append(known, m.Message)
				if m.EventID < l.began.upTo || asked[m.EventID] {
					l.brought[m.ID] = true
				}
			}
		}
		if !msgs.More {
			break
		}
	}
	l.w.fold = l.folded(l.w.thread.State, known)
	return nil
}

// folded is what messages of the run come to, of which those count that its generation has said: neither what it was asked, nor what
// earlier ones have said.
func (l *live) folded(state json.RawMessage, messages []agui.Message) *fold.Fold {
	f := fold.New(state, messages)
	for i := range messages {
		if l.brought[messages[i].ID] {
			f.Brought(messages[i].ID)
		}
	}
	return f
}

// page is how many rows or events are read at once.
const page = 500

// countSteps finds the number of the run's last step. Numbers have no gaps.
func (l *live) countSteps(ctx context.Context, r model.Reader) error {
	steps, err := r.Steps(ctx, l.run.Project, l.run.Key, 0, 1)
	l.count = steps.Total
	return err
}
