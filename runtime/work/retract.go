package work

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/plan"
)

// doing is a Do with a running function. Its memo names the messages that the function has begun. If the process dies
// meanwhile, they are retracted: the function is called again and emits all of them again.
type doing struct {
	outer *doing // the enclosing Do, nil outside of any
	memo  data.Memo
	shown []string // ids of the messages it has begun
	known int      // how many of them the memo names
	full  int      // how many memos have reached their limit of ids
}

// idsPerMemo limits the message ids in one memo of a Do, because each new id rewrites its memo. Further ids go into further memos.
const idsPerMemo = 100

// at returns memo number n of the Do, which names its latest messages. Number 0 is the memo of the Do itself.
func (d *doing) at(n int) data.Memo {
	row := d.memo
	if n > 0 {
		row.Place += "+" + strconv.Itoa(n)
	}
	return row
}

// over returns the further memos as done: they are not needed once the Do has its record.
func (d *doing) over() (rows []data.Row) {
	for n := 1; n <= d.full; n++ {
		row := d.at(n)
		row.Done = true
		rows = append(rows, &row)
	}
	return rows
}

// inside calls fn as the function of a Do.
func (s *step) inside(ctx context.Context, d *doing, fn func(context.Context) (plugins.Record, error)) (plugins.Record, error) {
	d.outer, _ = ctx.Value(doingKey{s}).(*doing)
	s.l.mu.Lock()
	s.dos = append(s.dos, d)
	s.l.mu.Unlock()
	defer func() {
		s.l.mu.Lock()
		s.dos = slices.DeleteFunc(s.dos, func(other *doing) bool { return other == d })
		s.l.mu.Unlock()
	}()
	return fn(context.WithValue(ctx, doingKey{s}, d))
}

// doingKey is the context key of a step's Do.
type doingKey struct{ s *step }

// doings are a step's Dos with running functions. The run's mutex guards them.
type doings []*doing

// inner returns the innermost running Do. It returns nil when there is none, or when several run side by side, so that the
// owner of a message is unknown.
func (ds doings) inner() *doing {
	var inner *doing
	for _, d := range ds {
		if d.outer != inner {
			return nil
		}
		inner = d
	}
	return inner
}

// showing adds the message that ev begins to the running Do. It returns the memo that must be stored with ev: when ev ends a
// message, or begins a message of calls, which a crash does not cut.
func (ds doings) showing(ev agui.Event, sp *span) []data.Row {
	d := ds.inner()
	if d == nil {
		return nil
	}
	switch e := ev.(type) {
	case agui.TextMessageStart:
		d.shown = append(d.shown, e.MessageID)
	case agui.ReasoningMessageStart:
		d.shown = append(d.shown, e.MessageID)
	case agui.ToolCallStart:
		if id := cmp.Or(e.ParentMessageID, e.ToolCallID); sp.messages[id] == nil {
			d.shown = append(d.shown, id)
			return ds.shown()
		}
	case agui.TextMessageEnd, agui.ReasoningMessageEnd:
		return ds.shown()
	}
	return nil
}

// shown returns the memo of the running Do if the Do has begun messages that the memo does not name. It is stored with the
// held event that ends one of them.
func (ds doings) shown() []data.Row {
	d := ds.inner()
	if d == nil || d.known == len(d.shown) {
		return nil
	}
	d.known = len(d.shown)
	row := d.at(d.full)
	row.Output = data.MustJSON(d.shown)
	if d.known >= idsPerMemo {
		d.shown, d.known, d.full = nil, 0, d.full+1
	}
	return []data.Row{&row}
}

// retract retracts the output of each Do that a crash has cut short: the Do is repeated. A message stays if one of its calls
// has a record. The unended messages are already hidden and are retracted too, so that readers that fold the log hide them.
func (r *repair) retract(unended []string) error {
	l := r.l
	var cut []string
	recorded := make(map[string]bool) // calls
	for _, m := range l.journal.records {
		if m.CallID != "" {
			recorded[m.CallID] = true
		}
		if r.isCutAt(m) && wasCut(l.nodes, m) {
			var ids []string
			if err := json.Unmarshal(m.Output, &ids); err == nil {
				cut = append(cut, ids...)
			}
		}
	}
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

// wasCut reports whether a memo belongs to a Do that has begun and is to be repeated.
func wasCut(ns *plan.Plan, m *data.Memo) bool {
	if m.Done || m.Output == nil || !strings.HasPrefix(m.Place[strings.LastIndexByte(m.Place, '/')+1:], "do:") {
		return false
	}
	return ns.Goes(m.Step)
}

// shows reports whether a complete message of the run is in prompts.
func (sp *span) shows(id string) bool {
	m := sp.messages[id]
	return m != nil && m.EventID != 0 && m.State == data.MessageConsumed && m.Role != agui.RoleUser
}
