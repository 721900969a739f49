package agui

// Project returns ev in projection p, nil if p omits it. In most cases that is ev itself.
//
// Dialect 0.0, which Seed, AGUI0 and Public use, has no cancelled outcome, no sub-agents (they become steps), no pending tool
// calls, no content parts on results and no unknown types. Public is narrower still: see public.
func Project(ev Event, p Projection) Event {
	if p == Stored {
		return ev
	}
	switch e := ev.(type) {
	case TextMessageContent, ToolCallArgs, ReasoningMessageContent:
		if p != Public {
			return ev
		}
	case RunStarted:
		if e.Input != nil {
			in := *e.Input
			in.Messages = projectMessages(in.Messages, p)
			e.Input = &in
			ev = e
		}
	case MessagesSnapshot:
		e.Messages = projectMessages(e.Messages, p)
		ev = e
	case RunFinished:
		ev = e.project(p)
	}
	if !p.legacy() {
		return ev
	}
	switch e := ev.(type) {
	case StepStarted:
		if e.SubagentRunID != "" {
			ev = StepStarted{Base: e.Base, StepName: innerStep(e.StepName, e.SubagentRunID)}
		}
	case StepFinished:
		if e.SubagentRunID != "" {
			ev = StepFinished{Base: e.Base, StepName: innerStep(e.StepName, e.SubagentRunID)}
		}
	case SubagentStarted:
		ev = StepStarted{Base: e.Base, StepName: subagentStep(e.Name, e.SubagentRunID)}
	case SubagentFinished:
		ev = StepFinished{Base: e.Base, StepName: subagentStep(memberOf(e.Metadata, "name"), e.SubagentRunID)}
	case SubagentError:
		ev = StepFinished{Base: e.Base, StepName: subagentStep(memberOf(e.Metadata, "name"), e.SubagentRunID)}
	case Unknown:
		return nil
	}
	if p == Public && !public(ev) {
		return nil
	}
	return ev
}

// subagentStep is the name of a sub-agent's step in dialect 0.0.
func subagentStep(name, id string) string { return name + ":" + id }

// innerStep names a sub-agent's own step in dialect 0.0, which knows no owners: its name may be open in
// the parent too.
func innerStep(name, id string) string { return name + "@" + id }

func (e RunFinished) project(p Projection) Event {
	if e.Metadata != nil && !isFinishMetadata(e.Metadata) {
		e.Metadata = nil
	}
	if !p.legacy() {
		return e
	}
	if e.Outcome.Type == OutcomeCancelled {
		e.Metadata = nil
		return RunError{Base: e.Base, Message: "Run cancelled", Code: "CANCELLED", Usage: e.Usage}
	}
	e.Outcome.PendingToolCallIDs = nil
	return e
}
