package exec

import (
	"encoding/json"
	"iter"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/graph"
)

// Resumed is a step of an earlier run that a rerun begins in the middle of: its records and messages until then, and the state that the thread
// had. The worker is replayed with the records as after a crash.
type Resumed struct {
	Step     data.Step
	Records  []data.Memo
	Messages []agui.Message  // of the assistant, of tools, and appended ones of the user
	State    json.RawMessage // an object
}

// resumeStep begins the step that the run resumes. It does nothing if the workflow does not have its node any more.
func (o *opening) resumeStep(r *Resumed) error {
	l := o.l
	i := slices.IndexFunc(l.out.nodes.Graph.Nodes, func(n *graph.Node) bool { return n.ID == r.Step.NodeID })
	if i < 0 {
		return nil
	}
	n := l.out.nodes.Graph.Nodes[i]
	st, err := l.out.enter(o.it, n, r.Step.Input)
	if err != nil {
		return err
	}
	l.out.nodes.Recount(st, r.Step.Round, r.Step.Execution)
	o.it.Rows = append(o.it.Rows, l.out.nodes.Rows(st)...)
	outputs := make(map[string]*agui.ToolOutput)
	for i := range r.Records {
		m := r.Records[i]
		m.RunKey, m.Generation, m.Step = o.row.Key, o.row.Generation, st.Number
		l.out.record(o.it, &m)
		var out agui.ToolOutput
		if m.Tool != "" && json.Unmarshal(m.Output, &out) == nil {
			outputs[m.CallID] = &out
		}
	}
	for i := range r.Messages {
		if err := l.out.span.Stage(o.it, restated(&r.Messages[i], agui.Base{Agent: n.Worker()}, outputs)...); err != nil {
			return err
		}
	}
	if string(r.State) == string(l.out.span.State()) {
		return nil
	}
	return l.out.span.Stage(o.it, agui.StateSnapshot{Snapshot: r.State})
}

// restated returns the events of a message that another run has shown. outputs are those of calls, by their id.
func restated(m *agui.Message, base agui.Base, outputs map[string]*agui.ToolOutput) (evs []agui.Event) {
	text := m.Text()
	if m.Role == agui.RoleTool {
		out := outputs[m.ToolCallID]
		if out == nil {
			out = &agui.ToolOutput{ToolCallID: m.ToolCallID, Status: agui.StatusSuccess, ResultSummary: text}
		}
		return []agui.Event{agui.ToolCallResult{Base: base, MessageID: m.ID, ToolCallID: m.ToolCallID, Content: text, Output: out}}
	}
	if m.Role == agui.RoleUser {
		base.Agent = ""
	}
	if text != "" {
		evs = append(evs, agui.TextMessageStart{Base: base, MessageID: m.ID, Role: m.Role})
		for part := range parts(text) {
			evs = append(evs, agui.TextMessageContent{Base: base, MessageID: m.ID, Delta: part})
		}
		evs = append(evs, agui.TextMessageEnd{Base: base, MessageID: m.ID, Output: &agui.WorkerOutput{Status: agui.StatusSuccess, Answer: text}})
	}
	for _, c := range m.ToolCalls {
		evs = append(evs, agui.ToolCallStart{Base: base, ToolCallID: c.ID, ToolCallName: c.Name, ParentMessageID: m.ID})
		for part := range parts(c.Arguments) {
			evs = append(evs, agui.ToolCallArgs{Base: base, ToolCallID: c.ID, Delta: part})
		}
		evs = append(evs, agui.ToolCallEnd{Base: base, ToolCallID: c.ID})
	}
	return evs
}

// parts yields a text in parts that fit into events.
func parts(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			part := data.Clip(text, data.MaxShown)
			if !yield(part) {
				return
			}
			text = text[len(part):]
		}
	}
}
