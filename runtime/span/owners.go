package span

import (
	"context"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// Worker is a worker as the events of its run know it: for one execution of a node, or a sub-agent inside one.
type Worker struct {
	Ctx      context.Context // the worker may emit until it is done
	Step     int             // the number of the step, 1.. in the run
	Agent    string          // the agent that the events are attributed to
	Subagent string          // the sub-agent invocation, empty for the node's own worker
	Parent   *Worker         // of a sub-agent
	Within   string          // the prefix of a sub-agent's places
	Ended    bool            // it may emit no more; guarded like the span
}

// Depth returns the depth of the worker: 0 for a node's own.
func (w *Worker) Depth() (n int) {
	for p := w.Parent; p != nil; p = p.Parent {
		n++
	}
	return n
}

// isOrLeads reports whether w is other or a worker that other works for.
func (w *Worker) isOrLeads(other *Worker) bool {
	for p := other; p != nil; p = p.Parent {
		if p == w {
			return true
		}
	}
	return false
}

// Attribute adds to ev its run, and its agent and sub-agent unless ev has them.
func (sp *Span) Attribute(w *Worker, ev agui.Event) agui.Event {
	base := ev.Common()
	base.ThreadID, base.RunID = sp.Thread.ID, sp.Row.RunID
	if base.Agent == "" {
		base.Agent = w.Agent
	}
	if base.SubagentRunID == "" {
		base.SubagentRunID = w.Subagent
	}
	return ev.WithCommon(base)
}

// Own makes a worker the owner of the entity of an event, which was opened before.
func (sp *Span) Own(w *Worker, ev agui.Event) {
	about, _ := entityOf(ev)
	sp.owners[about] = w
}

// Owns reports whether a worker, or one that works for it, has opened the entity of an event.
func (sp *Span) Owns(w *Worker, ev agui.Event) bool {
	about, _ := entityOf(ev)
	return sp.owners.within(w, about)
}

// owners maps each open entity of a run to the worker that has opened it. Only that worker, and those it works for, may continue or close
// the entity.
type owners map[entity]*Worker

// entity is something that events open, continue and close.
type entity struct{ kind, id string }

// An event does one of these to an entity.
const (
	opens = iota
	continues
	closes
)

// entityOf returns the entity of ev, and what ev does to it. It returns the zero entity for an event without one.
func entityOf(ev agui.Event) (about entity, does int) {
	switch e := ev.(type) {
	case agui.TextMessageStart:
		return entity{"text", e.MessageID}, opens
	case agui.TextMessageContent:
		return entity{"text", e.MessageID}, continues
	case agui.TextMessageEnd:
		return entity{"text", e.MessageID}, closes
	case agui.ReasoningStart:
		return entity{"reasoning", e.MessageID}, opens
	case agui.ReasoningEnd:
		return entity{"reasoning", e.MessageID}, closes
	case agui.ReasoningMessageStart:
		return entity{"thought", e.MessageID}, opens
	case agui.ReasoningMessageContent:
		return entity{"thought", e.MessageID}, continues
	case agui.ReasoningMessageEnd:
		return entity{"thought", e.MessageID}, closes
	case agui.ToolCallStart:
		return entity{"call", e.ToolCallID}, opens
	case agui.ToolCallArgs:
		return entity{"call", e.ToolCallID}, continues
	case agui.ToolCallEnd:
		return entity{"call", e.ToolCallID}, continues
	case agui.ToolCallResult:
		return entity{"call", e.ToolCallID}, closes
	case agui.SubagentStarted:
		return entity{"agent", e.SubagentRunID}, opens
	case agui.SubagentFinished:
		return entity{"agent", e.SubagentRunID}, closes
	case agui.SubagentError:
		return entity{"agent", e.SubagentRunID}, closes
	case agui.StepStarted:
		return entity{"step", e.SubagentRunID + "/" + e.StepName}, opens
	case agui.StepFinished:
		return entity{"step", e.SubagentRunID + "/" + e.StepName}, closes
	case agui.Custom:
		switch c, ok := agui.ModelCallOf(e); {
		case ok && c.Status == agui.ModelStarted:
			return entity{"model", c.ID}, opens
		case ok:
			return entity{"model", c.ID}, closes
		}
	}
	return entity{}, opens
}

// check refuses an event of a worker that continues or closes an entity, unless the worker or one that works for it has opened
// the entity. Calls of models have no such rule: clients do not know their events.
func (o owners) check(w *Worker, ev agui.Event, about entity, does int) error {
	if does == opens || about.kind == "model" || o.within(w, about) {
		return nil
	}
	return &plugins.Error{Code: "illegal_event", Message: string(ev.Type()) + ": the agent has not opened the " + about.kind + " " + about.id}
}

// within reports whether a worker, or one that works for it, has opened an entity.
func (o owners) within(w *Worker, about entity) bool {
	owner := o[about]
	return owner != nil && w.isOrLeads(owner)
}

// note records the owner of an entity that a stored event opens, and removes an entity that it closes.
func (o owners) note(w *Worker, about entity, does int) {
	switch {
	case does == closes:
		delete(o, about)
	case does == opens && about != (entity{}) && o[about] == nil: // a sub-agent has its own worker as owner already
		o[about] = w
	}
}
