package work

import (
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// owners maps each open entity of a run to the step that has opened it. Only that step, and the steps it works for, may
// continue or close the entity. The run's mutex guards it.
type owners map[entity]*step

// entity is something that events open, continue and close.
type entity struct {
	kind string
	id   string
}

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
		return callEntity(e.ToolCallID), opens
	case agui.ToolCallArgs:
		return callEntity(e.ToolCallID), continues
	case agui.ToolCallEnd:
		return callEntity(e.ToolCallID), continues
	case agui.ToolCallResult:
		return callEntity(e.ToolCallID), closes
	case agui.SubagentStarted:
		return agentEntity(e.SubagentRunID), opens
	case agui.SubagentFinished:
		return agentEntity(e.SubagentRunID), closes
	case agui.SubagentError:
		return agentEntity(e.SubagentRunID), closes
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

func callEntity(id string) entity  { return entity{"call", id} }
func agentEntity(id string) entity { return entity{"agent", id} }

// check refuses an event of a step that continues or closes an entity, unless the step or one that works for it has opened
// the entity. Calls of models have no such rule: clients do not know their events.
func (o owners) check(s *step, ev agui.Event, about entity, does int) error {
	if does == opens || about.kind == "model" || o.within(s, about) {
		return nil
	}
	return &plugins.Error{Code: "illegal_event", Message: string(ev.Type()) + ": the agent has not opened the " + about.kind + " " + about.id}
}

// within reports whether a step, or one that works for it, has opened an entity.
func (o owners) within(s *step, about entity) bool {
	owner := o[about]
	return owner != nil && s.isOrLeads(owner)
}

// note records the owner of an entity that a stored event opens, and removes an entity that it closes.
func (o owners) note(s *step, about entity, does int) {
	switch {
	case does == closes:
		delete(o, about)
	case does == opens && about != (entity{}) && o[about] == nil: // a sub-agent has its own step as owner already
		o[about] = s
	}
}

// isOrLeads reports whether s is other or a step that other works for.
func (s *step) isOrLeads(other *step) bool {
	for p := other; p != nil; p = p.parent {
		if p == s {
			return true
		}
	}
	return false
}
