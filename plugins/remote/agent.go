package remote

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// maxTurns limits the runs of the remote in one step.
const maxTurns = 64

// Run calls the remote, and again with each answer that it requests.
func (a *Agent) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	messages, _, err := run.Messages(ctx, 0)
	if err != nil {
		return agui.WorkerOutput{}, err
	}
	c := a.begin(&run.Input, messages)
	for range maxTurns {
		res, err := a.turn(ctx, run, c)
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		for _, u := range res.Usage {
			if err := run.ModelCall(ctx, plugins.ModelCall{Usage: u}); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		switch {
		case res.Failure != nil:
			return agui.WorkerOutput{}, &plugins.Error{Code: res.Failure.Code, Message: res.Failure.Message, Retryable: res.Failure.Retryable}
		case len(res.Pending)+len(res.Questions) == 0:
			return res.Output, nil
		}
		if c, err = a.answered(ctx, run, c, res); err != nil {
			return agui.WorkerOutput{}, err
		}
	}
	return agui.WorkerOutput{}, &plugins.Error{Code: "too_many_turns", Message: "The remote agent asks too many times"}
}

// answered gets the client's and people's answers to the open calls and questions of the remote's run, and returns the
// continued conversation. It asks all of them before the step waits.
func (a *Agent) answered(ctx context.Context, run *plugins.Run, c *conversation, res *result) (*conversation, error) {
	next := &conversation{thread: c.thread, state: res.State, messages: extended(c.messages, res.Messages), left: slices.Clone(res.Left)}
	waiting := false
	if len(res.Pending) > 0 {
		calls := make([]plugins.ToolCall, len(res.Pending))
		for i, p := range res.Pending {
			calls[i] = plugins.ToolCall{Name: p.Name, Args: argumentsOf(p.Arguments)}
		}
		outs, err := run.CallTools(ctx, calls...)
		if err != nil && !errors.Is(err, plugins.ErrWaiting) {
			return nil, err
		}
		waiting = err != nil
		for i, out := range outs {
			m := agui.Message{ID: resultID(out.ToolCallID), Role: agui.RoleTool, ToolCallID: res.Pending[i].ID, Content: out.ResultSummary}
			if out.Error != nil {
				m.Error = out.Error.Message
			}
			next.messages = append(next.messages, m)
		}
	}
	for _, q := range res.Questions {
		answer, err := run.Ask(ctx, q.Interrupt)
		switch {
		case errors.Is(err, plugins.ErrWaiting):
			waiting = true
		case err != nil:
			return nil, err
		case q.Command:
			next.command = q.command(answer)
		default:
			next.answer(q.Interrupt.ToolCallID, answer)
			entry := agui.ResumeEntry{InterruptID: q.ID, Status: "resolved", Payload: answer.Payload}
			if answer.Cancelled {
				entry.Status = "cancelled"
			}
			next.resume, next.parent = append(next.resume, entry), res.Run
		}
	}
	if waiting {
		return nil, plugins.ErrWaiting
	}
	return next, nil
}

// answer records a person's answer as the result of a call that was left open.
func (c *conversation) answer(toolCallID string, a plugins.Answer) {
	for i := range c.left {
		if c.left[i].ID != toolCallID {
			continue
		}
		out := &agui.ToolOutput{Status: agui.StatusSuccess, ResultSummary: textOf(a.Payload)}
		if a.Cancelled {
			const why = "The question was not answered"
			out = &agui.ToolOutput{Status: agui.StatusFailure, ResultSummary: why, Error: &agui.OutputError{Code: "declined", Message: why}}
		}
		c.left[i].Answer = out
	}
}

// result is the record of one run of the remote.
type result struct {
	Run       string            `json:"run,omitempty"`      // its id there
	Messages  []agui.Message    `json:"messages,omitempty"` // its new messages if it is called again
	State     json.RawMessage   `json:"state,omitempty"`    // its state if it is called again
	Pending   []agui.ToolCall   `json:"pending,omitempty"`  // calls of the client's tools that the remote waits for
	Questions []question        `json:"questions,omitempty"`
	Left      []left            `json:"left,omitempty"` // calls that stay open until it is called again
	Usage     []agui.TokenUsage `json:"usage,omitempty"`
	Output    agui.WorkerOutput `json:"output"`
	Failure   *agui.OutputError `json:"failure,omitempty"`
	Gone      bool              `json:"gone,omitempty"` // the remote cancelled it, not we
}

// argumentsOf returns the arguments of a call as an object. Another value is its member "input".
func argumentsOf(args string) json.RawMessage {
	if text := strings.TrimSpace(args); text == "" || text == "null" {
		return json.RawMessage("{}")
	}
	if raw := json.RawMessage(args); isObject(raw) {
		return raw
	}
	return encoded(map[string]string{"input": args})
}

// question is an interrupt of the remote.
type question struct {
	ID        string         `json:"id"` // the remote's
	Interrupt agui.Interrupt `json:"interrupt"`
	Command   bool           `json:"command,omitempty"` // from on_interrupt; the answer is a command
	Value     string         `json:"value,omitempty"`   // of on_interrupt
}

// command is the answer to an on_interrupt, for LangGraph and, with interruptEvent, for Mastra.
func (q *question) command(answer plugins.Answer) json.RawMessage {
	payload := answer.Payload
	switch {
	case answer.Cancelled:
		payload = json.RawMessage(`{"cancelled":true}`)
	case payload == nil:
		payload = json.RawMessage("null")
	}
	command, err := json.Marshal(struct {
		Resume json.RawMessage `json:"resume"`
		Event  string          `json:"interruptEvent,omitempty"`
	}{payload, q.Value})
	if err != nil {
		return nil
	}
	return command
}
