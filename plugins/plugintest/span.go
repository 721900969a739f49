package plugintest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

func (s *session) startSpan(messages []agui.Message) {
	start := agui.RunStarted{
		Base:    agui.Base{ThreadID: s.in.ThreadID, RunID: s.in.RunID},
		AgentID: s.agent.Info().Name,
	}
	if len(messages) > 0 {
		start.Input = &agui.RunAgentInput{ThreadID: s.in.ThreadID, RunID: s.in.RunID, Messages: messages}
	}
	s.write(start)
}

// finish ends the last span according to the worker's err.
func (s *session) finish(err error) {
	switch {
	case err == nil:
		s.closeAll(agui.WorkerOutput{Status: agui.StatusSuccess}, nil)
		s.write(agui.RunFinished{Base: s.metadata(), Usage: slices.Clone(s.usage)})
	case errors.Is(err, plugins.ErrCancelled):
		s.closeAll(agui.WorkerOutput{Status: agui.StatusPartialSuccess}, nil)
		s.write(agui.RunFinished{Base: s.metadata(), Outcome: agui.Outcome{Type: agui.OutcomeCancelled}, Usage: slices.Clone(s.usage)})
	default:
		why := agentError(err)
		s.closeAll(agui.WorkerOutput{Status: agui.StatusFailed, Error: why}, nil)
		s.write(agui.RunError{Message: why.Message, Code: why.Code, Usage: slices.Clone(s.usage)})
	}
}

// wait ends a span with open questions.
func (s *session) wait() {
	open := make(map[string]bool)
	for _, rec := range s.records {
		open[rec.id] = open[rec.id] || !rec.done
	}
	s.closeAll(agui.WorkerOutput{Status: agui.StatusSuccess}, open)
	outcome := agui.Outcome{Type: agui.OutcomeSuccess}
	for _, q := range s.open {
		if q.isCall() {
			outcome.PendingToolCallIDs = append(outcome.PendingToolCallIDs, q.call.ToolCallID)
			continue
		}
		outcome.Type = agui.OutcomeInterrupt
		outcome.Interrupts = append(outcome.Interrupts, q.interrupt)
	}
	s.write(agui.RunFinished{Base: s.metadata(), Outcome: outcome, Usage: slices.Clone(s.usage)})
}

// closeAll closes everything open except the calls in keep: text messages with out and their own text as answer.
func (s *session) closeAll(out agui.WorkerOutput, keep map[string]bool) {
	for _, ev := range s.verifier.Closers() {
		s.write(s.ending(ev, out))
	}
	for _, id := range s.verifier.Unanswered() {
		if !keep[id] {
			s.fail(id)
		}
	}
}

// ending sets the output or error of the closing event ev.
func (s *session) ending(ev agui.Event, out agui.WorkerOutput) agui.Event {
	switch e := ev.(type) {
	case agui.TextMessageEnd:
		out.Answer = s.fold.Text(e.MessageID)
		e.Output = &out
		return e
	case agui.SubagentFinished:
		if out.Error != nil {
			return agui.SubagentError{Base: e.Base, Message: out.Error.Message, Code: out.Error.Code}
		}
		if len(s.open) > 0 {
			e.Outcome = json.RawMessage(`{"type":"suspended"}`)
		}
		return e
	}
	return ev
}

// closeMessages closes the open text and reasoning of a sub-agent, or with "" of the whole run.
func (s *session) closeMessages(subagent string, out agui.WorkerOutput) (ids []string) {
	for _, ev := range s.verifier.Closers() {
		if subagent != "" && ev.Common().SubagentRunID != subagent {
			continue
		}
		switch e := ev.(type) {
		case agui.TextMessageEnd:
			ids = append(ids, e.MessageID)
		case agui.ReasoningMessageEnd:
			ids = append(ids, e.MessageID)
		case agui.ReasoningEnd, agui.ToolCallEnd:
		default:
			continue
		}
		s.write(s.ending(ev, out))
	}
	return ids
}

// cutShort closes messages, calls and steps that a crash left open, except the sub-agents of CallAgent, which their callers resume. It reopens steps
// and sub-agents that a worker emitted itself. Announced calls without a record are not made.
func (s *session) cutShort() {
	out := agui.WorkerOutput{Status: agui.StatusFailed, Error: outputError(errInterrupted, "")}
	for _, id := range s.closeMessages("", out) {
		s.interrupted[id] = true
	}
	made, called := make(map[string]bool), make(map[string]bool)
	for _, rec := range s.records {
		made[rec.id], called[rec.id] = true, !rec.done
	}
	for _, id := range s.verifier.Unanswered() {
		if !made[id] {
			s.interrupted[id] = true
			s.fail(id)
		}
	}
	s.takeBack(made)
	for _, ev := range s.verifier.Closers() {
		switch e := ev.(type) {
		case agui.StepFinished:
			s.write(e)
		case agui.SubagentFinished:
			if !called[e.SubagentRunID] {
				s.write(agui.SubagentError{Base: e.Base, Message: errInterrupted.Message, Code: errInterrupted.Code})
			}
		}
	}
}

// fail writes the result of a call that will not be made.
func (s *session) fail(callID string) {
	result := failed(agui.ToolOutput{ToolCallID: callID}, errInterrupted, "")
	s.write(agui.ToolCallResult{MessageID: s.id("result"), ToolCallID: callID, Content: result.ResultSummary, Output: &result})
}

var errInterrupted = &plugins.Error{Code: "interrupted", Message: "interrupted"}

// failed returns out as the result of a call that failed with err; see outputError.
func failed(out agui.ToolOutput, err error, code string) agui.ToolOutput {
	out.Status = agui.StatusFailure
	out.Error = outputError(err, code)
	out.ResultSummary = out.Error.Message
	return out
}

// outputError returns the client's view of err: a *plugins.Error as it is, any other error with code. Unlike a server it
// includes the text of any error.
func outputError(err error, code string) *agui.OutputError {
	if known, ok := errors.AsType[*plugins.Error](err); ok {
		return &agui.OutputError{Code: cmp.Or(known.Code, "failed"), Message: known.Message, Retryable: known.Retryable}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		code = "timeout"
	}
	return &agui.OutputError{Code: code, Message: err.Error()}
}

// agentError returns the client's view of a worker's err.
func agentError(err error) *agui.OutputError {
	if _, ok := errors.AsType[*plugins.PanicError](err); ok {
		return outputError(err, "panic")
	}
	return outputError(err, "agent_failed")
}
