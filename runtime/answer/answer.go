// Package answer has a run's questions to people and clients, and checks and prepares their answers.
package answer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/journal"
	"github.com/batonrun/baton/runtime/offer"
	"github.com/batonrun/baton/runtime/tail"
)

// Checker checks answers by the plugins that are offered now.
type Checker struct {
	Offers     *offer.Offers
	FrameBytes int
}

// RepliesTo validates the answers of a request to a run's interrupts and prepares them for the decision, which refuses answers to
// unknown interrupts. Its refusals have the place in the request's body.
func (c Checker) RepliesTo(run *data.RunHead, all []data.Interrupt, entries []agui.ResumeEntry, by Responder) ([]decide.Reply, error) {
	replies := make([]decide.Reply, len(entries))
	size := 0
	answers := make(map[string]bool, len(entries))
	for i, e := range entries {
		if answers[e.InterruptID] {
			return nil, misplaced(fmt.Sprintf("/resume/%d/interruptId", i), "duplicate_answer", "The interrupt %q is answered twice", e.InterruptID)
		}
		answers[e.InterruptID] = true
		replies[i].Interrupt = e.InterruptID
		at := slices.IndexFunc(all, func(in data.Interrupt) bool { return in.ID == e.InterruptID })
		if at < 0 {
			continue
		}
		in := &all[at]
		if in.Status == data.InterruptOpen {
			if e.Status != data.InterruptCancelled {
				if err := MayAnswer(in, run.User, by); err != nil {
					return nil, err
				}
			}
			if err := c.checkAnswer(run.Project, in, &e, fmt.Sprintf("/resume/%d", i)); err != nil {
				return nil, err
			}
		}
		if size += len(e.Payload); size > tail.MaxMessages(c.FrameBytes) { // one RUN_STARTED has all answers
			return nil, data.Refuse(data.KindTooLarge, "messages_too_large", "The answers of a request may hold %d bytes", tail.MaxMessages(c.FrameBytes))
		}
		if e.Status == data.InterruptCancelled {
			e.Payload = nil // it was not checked
		}
		replies[i] = replyTo(in, takenFrom(e, &by, time.Now()))
		replies[i].Rows = raisedBy(run, in, e.Payload)
	}
	return replies, nil
}

// checkAnswer validates an answer against its question. place is a JSON pointer to the answer in the request's body.
func (c Checker) checkAnswer(project string, in *data.Interrupt, e *agui.ResumeEntry, place string) error {
	switch {
	case e.Status == data.InterruptCancelled:
		return nil
	case e.Status != data.InterruptResolved:
		return misplaced(place+"/status", "invalid_request", "An answer's status must be resolved or cancelled")
	case in.Frontend:
		return nil
	}
	schema := json.RawMessage(approvalSchema)
	if !journal.IsApproval(in) {
		asked, err := tail.Asks(in)
		if err != nil || asked.ResponseSchema == nil {
			return err
		}
		schema = asked.ResponseSchema
	}
	answer := e.Payload
	if answer == nil {
		answer = json.RawMessage("null")
	}
	if err := graph.Fits(schema, answer); err != nil {
		return misplaced(place+"/payload"+placeOf(err), "invalid_answer", "The answer to %q does not fit: %s", in.ID, err)
	}
	var given journal.Approval
	if !journal.IsApproval(in) || json.Unmarshal(answer, &given) != nil || given.EditedArgs == nil {
		return nil
	}
	if edit := answerersOf(in).Edit; in.Tool == "" || edit != nil && !*edit {
		return misplaced(place+"/payload/editedArgs", "invalid_arguments", "What is approved here cannot be edited")
	}
	if err := c.checkEdit(project, in.Tool, given.EditedArgs); err != nil {
		return misplaced(place+"/payload/editedArgs"+placeOf(err), "invalid_arguments", "The edited arguments of %s do not fit: %s", in.Tool, err)
	}
	return nil
}

// checkEdit validates edited arguments against the schema of the tool, or of the agent called as a tool. It accepts any object for a
// tool that is no longer offered: the call itself fails then.
func (c Checker) checkEdit(project, name string, args json.RawMessage) error {
	own := c.Offers.Current()
	offered := own.Plugins.For(project)
	if tool, ok := offered.Tool(name); ok {
		_, err := own.Graphs.FitArgs(tool, args)
		return err
	}
	if _, ok := offered.Agent(name); !ok {
		return nil
	}
	_, err := graph.AgentQuery(args)
	return err
}

// placeOf returns the JSON pointer of a schema violation, or "".
func placeOf(err error) string {
	if m, ok := errors.AsType[*graph.Misfit](err); ok {
		return m.Place
	}
	return ""
}

func misplaced(place, code, format string, args ...any) error {
	refusal := data.Refuse(data.KindInvalid, code, format, args...)
	refusal.Place = place
	return refusal
}

// Taken is an accepted answer, as the interrupt's row stores it.
type Taken struct {
	Entry     agui.ResumeEntry `json:"entry"`               // as RUN_STARTED shows it
	MessageID string           `json:"messageId,omitempty"` // of the client's tool message, when that is the answer

	result *agui.ToolOutput // the output in the message
	by     string           // its user
}

// takenFrom stamps an answer with its author and time. by is nil for the server's own answer to an expired interrupt.
func takenFrom(e agui.ResumeEntry, by *Responder, at time.Time) Taken {
	e.Metadata = data.MustJSON(struct {
		By *Responder `json:"by,omitempty"`
		At string     `json:"at"`
	}{by, at.UTC().Format(time.RFC3339Nano)})
	t := Taken{Entry: e}
	if by != nil {
		t.by = by.User
	}
	return t
}

// Of returns the answer in an interrupt's row. A row without one has expired.
func Of(in *data.Interrupt) (t Taken, err error) {
	if in.Payload != nil {
		err = json.Unmarshal(in.Payload, &t)
		return t, err
	}
	var at time.Time
	if in.ExpiresAt != nil {
		at = *in.ExpiresAt
	}
	return takenFrom(agui.ResumeEntry{InterruptID: in.ID, Status: data.InterruptCancelled}, nil, at), nil
}

// Expired is the server's answer to a question that has expired. Its row gets none: see Of.
func Expired(in *data.Interrupt) decide.Reply {
	r := replyTo(in, Taken{Entry: agui.ResumeEntry{InterruptID: in.ID, Status: data.InterruptCancelled}})
	r.Payload = nil
	return r
}

func replyTo(in *data.Interrupt, t Taken) decide.Reply {
	e := &t.Entry
	r := decide.Reply{Interrupt: in.ID}
	switch {
	case in.Place == journal.AskPlace:
		r.Output = data.MustJSON(journal.Given{Answer: plugins.Answer{Cancelled: e.Status == data.InterruptCancelled, Payload: e.Payload}, By: t.by})
	case !in.Frontend:
		r.Output = data.MustJSON(plugins.Answer{Cancelled: e.Status == data.InterruptCancelled, Payload: e.Payload})
	case e.Status == data.InterruptCancelled:
		why := &agui.OutputError{Code: "declined", Message: "The client declined the call"}
		r.Output = resultOf(in, agui.ToolOutput{Status: agui.StatusFailure, ResultSummary: why.Message, Error: why})
	case t.result != nil:
		r.Output = resultOf(in, *t.result)
	default:
		r.Output = resultOf(in, returned(e.Payload))
	}
	r.Payload = data.MustJSON(t)
	return r
}

// Entries returns the answers for the next RUN_STARTED. It leaves out tool messages of the client: their TOOL_CALL_RESULT has them.
func Entries(all []data.Interrupt) (list []agui.ResumeEntry) {
	for i := range all {
		if all[i].Status != data.InterruptAnswered {
			continue
		}
		if t, err := Of(&all[i]); err == nil && t.MessageID == "" {
			list = append(list, t.Entry)
		}
	}
	return list
}

func resultOf(in *data.Interrupt, out agui.ToolOutput) json.RawMessage {
	out.ToolName, out.ToolCallID = in.Tool, in.ID
	return data.MustJSON(out)
}

// returned makes a tool output from a resume payload. Any JSON is a result.
func returned(answer json.RawMessage) agui.ToolOutput {
	out := agui.ToolOutput{Status: agui.StatusSuccess, ResultSummary: cmp.Or(string(answer), "null")}
	var text *string
	if json.Unmarshal(answer, &text) == nil && text != nil {
		out.ResultSummary = *text
	}
	return out
}

// frontendOutput returns a client's tool message as the output of its call.
func frontendOutput(m *agui.Message) *agui.ToolOutput {
	out := &agui.ToolOutput{Status: agui.StatusSuccess, ResultSummary: m.Text(), Parts: m.Parts}
	if m.Error != "" {
		out.Status = agui.StatusFailure
		out.Error = &agui.OutputError{Code: "tool_failed", Message: m.Error}
	}
	return out
}

// byCall returns the open interrupts that results of calls answer: calls of the client's tools, and questions about calls that are no approvals.
func byCall(all []data.Interrupt) map[string]*data.Interrupt {
	open := make(map[string]*data.Interrupt)
	for i := range all {
		in := &all[i]
		switch {
		case in.Status != data.InterruptOpen:
		case in.Frontend:
			open[in.ID] = in
		case !journal.IsApproval(in):
			if asked, err := tail.Asks(in); err == nil && asked.ToolCallID != "" {
				open[asked.ToolCallID] = in
			}
		}
	}
	return open
}

// payloadOf returns a tool message's content as the answer to a question: a text that is JSON is that value.
func payloadOf(m *agui.Message) json.RawMessage {
	text := cmp.Or(m.Text(), m.Error)
	if raw := json.RawMessage(text); json.Valid(raw) {
		return raw
	}
	return data.MustJSON(text)
}

// Find prepares the answers in a request for a run of the thread, nil when there are none: the entries of its resume, and its messages with results
// of the client's own tools or of calls about which a worker asks. known has the ids of the messages that the thread already has.
func (c Checker) Find(
	ctx context.Context, r data.Reader, threadKey int64, resume []agui.ResumeEntry, msgs []agui.Message, known map[string]bool, by Responder,
) (*decide.Answers, error) {
	if len(resume) == 0 && !slices.ContainsFunc(msgs, func(m agui.Message) bool { return m.Role == agui.RoleTool }) {
		return nil, nil
	}
	open, err := r.OpenRuns(ctx, threadKey)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(open, func(r data.RunHead) bool { return r.Status != data.Queued || r.Answered }) // the only one that can have asked
	if i < 0 {
		return nil, nil
	}
	all, err := r.Interrupts(ctx, open[i].Key)
	if err != nil {
		return nil, err
	}
	a := &decide.Answers{Run: open[i].Key}
	if a.Replies, err = c.RepliesTo(&open[i], all, resume, by); err != nil {
		return nil, err
	}
	asked := byCall(all)
	for j := range msgs {
		m := &msgs[j]
		in := asked[m.ToolCallID]
		if m.Role != agui.RoleTool || in == nil || slices.ContainsFunc(a.Replies, func(r decide.Reply) bool { return r.Interrupt == in.ID }) {
			continue
		}
		if !in.Frontend {
			said, err := c.RepliesTo(&open[i], all, []agui.ResumeEntry{{InterruptID: in.ID, Status: data.InterruptResolved, Payload: payloadOf(m)}}, by)
			if refusal, ok := errors.AsType[*data.Error](err); ok && refusal.Place != "" {
				refusal.Place = fmt.Sprintf("/messages/%d/content", j)
			}
			if err != nil {
				return nil, err
			}
			a.Replies = append(a.Replies, said...)
			continue
		}
		t := takenFrom(agui.ResumeEntry{InterruptID: in.ID, Status: data.InterruptResolved}, &by, time.Now())
		t.result = frontendOutput(m)
		if t.MessageID = m.ID; known[m.ID] {
			t.MessageID = data.NewID()
		}
		a.Replies = append(a.Replies, replyTo(in, t))
	}
	if len(a.Replies) == 0 {
		return nil, nil
	}
	return a, nil
}
