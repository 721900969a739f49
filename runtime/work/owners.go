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

// entityOf returns the entity of ev, and whether ev closes it. It returns the zero entity for an event without one.
func entityOf(ev agui.Event) (about entity, closes bool) {
	switch e := ev.(type) {
	case agui.TextMessageStart:
		return entity{"text", e.MessageID}, false
	case agui.TextMessageContent:
		return entity{"text", e.MessageID}, false
	case agui.TextMessageEnd:
		return entity{"text", e.MessageID}, true
	case agui.ReasoningStart:
		return entity{"reasoning", e.MessageID}, false
	case agui.ReasoningEnd:
		return entity{"reasoning", e.MessageID}, true
	case agui.ReasoningMessageStart:
		return entity{"thought", e.MessageID}, false
	case agui.ReasoningMessageContent:
		return entity{"thought", e.MessageID}, false
	case agui.ReasoningMessageEnd:
		return entity{"thought", e.MessageID}, true
	case agui.ToolCallStart:
		return callEntity(e.ToolCallID), false
	case agui.ToolCallArgs:
		return callEntity(e.ToolCallID), false
	case agui.ToolCallEnd:
		return callEntity(e.ToolCallID), false
	case agui.ToolCallResult:
		return callEntity(e.ToolCallID), true
	case agui.SubagentStarted:
		return agentEntity(e.SubagentRunID), false
	case agui.SubagentFinished:
		return agentEntity(e.SubagentRunID), true
	case agui.SubagentError:
		return agentEntity(e.SubagentRunID), true
	case agui.StepStarted:
		return entity{"step", e.SubagentRunID + "/" + e.StepName}, false
	case agui.StepFinished:
		return entity{"step", e.SubagentRunID + "/" + e.StepName}, true
	case agui.Custom:
		if c, ok := agui.ModelCallOf(e); ok {
			return entity{"model", c.ID}, c.Status != agui.ModelStarted
		}
	}
	return entity{}, false
}

func callEntity(id string) entity  { return entity{"call", id} }
func agentEntity(id string) entity { return entity{"agent", id} }

// check refuses an event of a step that continues or closes an entity, unless the step or one that works for it has opened
// the entity.
func (o owners) check(s *step, ev agui.Event) error {
	if !goesOn(ev.Type()) {
		return nil
	}
	if about, _ := entityOf(ev); !o.within(s, about) {
		return &plugins.Error{Code: "illegal_event", Message: string(ev.Type()) + ": the agent has not opened the " + about.kind + " " + about.id}
	}
	return nil
}

// within reports whether a step, or one that works for it, has opened an entity.
func (o owners) within(s *step, about entity) bool {
	owner := o[about]
	return owner != nil && s.isOrLeads(owner)
}

// note records the owner of an entity that a stored event opens, and removes an entity that it closes.
func (o owners) note(s *step, ev agui.Event) {
	switch about, closes := entityOf(ev); {
	case about == (entity{}):
	case closes:
		delete(o, about)
	case o[about] == nil:
		o[about] = s
	}
}

// goesOn reports whether an event continues or ends something that an earlier one has opened.
func goesOn(t agui.Type) bool {
	switch t {
	case agui.TypeTextMessageContent, agui.TypeTextMessageEnd, agui.TypeToolCallArgs, agui.TypeToolCallEnd,
		agui.TypeToolCallResult, agui.TypeStepFinished, agui.TypeSubagentFinished, agui.TypeSubagentError,
		agui.TypeReasoningMessageContent, agui.TypeReasoningMessageEnd, agui.TypeReasoningEnd:
		return true
	}
	return false
}
