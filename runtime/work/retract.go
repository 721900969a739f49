package work

import (
	"cmp"
	"context"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/journal"
)

// inside calls fn as the function of a Do.
func (s *step) inside(ctx context.Context, d *journal.Doing, fn func(context.Context) (plugins.Record, error)) (plugins.Record, error) {
	d.Outer, _ = ctx.Value(doingKey{s}).(*journal.Doing)
	s.l.mu.Lock()
	s.dos = append(s.dos, d)
	s.l.mu.Unlock()
	defer func() {
		s.l.mu.Lock()
		s.dos = slices.DeleteFunc(s.dos, func(other *journal.Doing) bool { return other == d })
		s.l.mu.Unlock()
	}()
	return fn(context.WithValue(ctx, doingKey{s}, d))
}

// doingKey is the context key of a step's Do.
type doingKey struct{ s *step }

// retract retracts the output of each Do that a crash has cut short: the Do is repeated. A message stays if one of its calls
// has a record. The unended messages are already hidden and are retracted too, so that readers that fold the log hide them.
func (r *repair) retract(unended []string) error {
	l := r.l
	cut, recorded := l.journal.Repeats(func(m *data.Memo) bool { return r.isCutAt(m) && l.nodes.Goes(m.Step) })
	made := func(c agui.ToolCall) bool { return recorded[c.ID] }
	ids := unended
	for _, id := range cut {
		m, ok := l.span.fold.Message(id)
		if ok && !slices.ContainsFunc(m.ToolCalls, made) && (l.span.shows(id) || l.span.hiddenUntold(id)) {
			ids = append(ids, id)
		}
	}
	return l.span.retract(r.it, ids)
}

// retract stages the retraction of messages, and of the results of their calls.
func (sp *span) retract(it *commit.Item, ids []string) error {
	ids = sp.withResults(ids)
	if len(ids) == 0 {
		return nil
	}
	return sp.stage(it, agui.Retracted(ids))
}

// withResults returns messages, and the results of their calls that are shown, in the order of the thread.
func (sp *span) withResults(ids []string) []string {
	gone := make(map[string]bool) // calls
	for _, id := range ids {
		m, _ := sp.fold.Message(id)
		for _, c := range m.ToolCalls {
			gone[c.ID] = true
		}
	}
	if len(gone) > 0 {
		for _, m := range sp.fold.Messages() {
			if gone[m.ToolCallID] && sp.shows(m.ID) {
				ids = append(ids, m.ID)
			}
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(sp.messages[a].Seq, sp.messages[b].Seq) })
	return slices.Compact(ids)
}

// hiddenUntold reports whether a message is hidden because it was cut short, and the log has not retracted it yet.
func (sp *span) hiddenUntold(id string) bool {
	m := sp.messages[id]
	return m != nil && m.State == data.MessageHidden && !sp.retracted[id]
}

// shows reports whether a complete message of the run is in prompts.
func (sp *span) shows(id string) bool {
	m := sp.messages[id]
	return m != nil && m.EventID != 0 && m.State == data.MessageConsumed && m.Role != agui.RoleUser
}
