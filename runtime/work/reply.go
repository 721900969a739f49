package work

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/model"
)

// RepliesTo prepares the answers of a request to the interrupts of a run. Answers to none are left to the decision.
func RepliesTo(all []model.Interrupt, entries []agui.ResumeEntry) ([]decide.Reply, error) {
	replies := make([]decide.Reply, len(entries))
	for i, e := range entries {
		replies[i].Interrupt = e.InterruptID
		in := interrupt(all, e.InterruptID)
		if in == nil {
			continue
		}
		if in.Status == model.InterruptOpen && e.Status != model.InterruptResolved && e.Status != model.InterruptCancelled {
			return nil, model.Refuse(model.KindInvalid, "invalid_request", "An answer's status must be resolved or cancelled")
		}
		replies[i] = replyTo(in, e, "")
	}
	return replies, nil
}

// interrupt returns the one with the id, nil when there is none.
func interrupt(all []model.Interrupt, id string) *model.Interrupt {
	for i := range all {
		if id != "" && all[i].ID == id {
			return &all[i]
		}
	}
	return nil
}

// replyTo prepares one answer, which a client's message of that id may have brought.
func replyTo(in *model.Interrupt, e agui.ResumeEntry, messageID string) decide.Reply {
	r := decide.Reply{Interrupt: in.ID}
	switch {
	case !in.Frontend:
		r.Payload = mustJSON(plugins.Answer{Cancelled: e.Status == model.InterruptCancelled, Payload: e.Payload})
		r.Output = r.Payload
		return r
	case e.Status == model.InterruptCancelled:
		e.Payload = mustJSON(failure("declined", "The client declined the call"))
	case !json.Valid(e.Payload):
		e.Payload = json.RawMessage("null")
	}
	r.Payload = mustJSON(frontendAnswer{e.Payload, messageID})
	r.Output = resultOf(in, e.Payload)
	return r
}

// frontendAnswer is a frontend call's answer as its interrupt keeps it.
type frontendAnswer struct {
	Result    json.RawMessage `json:"result"`
	MessageID string          `json:"messageId,omitempty"` // of the client's tool message
}

// resultOf is a client's answer as the result of its call.
func resultOf(in *model.Interrupt, answer json.RawMessage) json.RawMessage {
	var out agui.ToolOutput
	if json.Unmarshal(answer, &out) != nil || out.Status == "" { // answered by resume: any JSON is the result
		out = agui.ToolOutput{Status: agui.StatusSuccess, ResultSummary: string(answer)}
		var s string
		if json.Unmarshal(answer, &s) == nil {
			out.ResultSummary = s
		}
	}
	out.ToolName, out.ToolCallID, out.Parts = in.Tool, in.ID, nil
	return mustJSON(out)
}

// frontendOutput is a client's tool message as the output of its call.
func frontendOutput(m *agui.Message) agui.ToolOutput {
	out := agui.ToolOutput{ToolCallID: m.ToolCallID, Status: agui.StatusSuccess, ResultSummary: m.Text()}
	if m.Error != "" {
		out.Status = agui.StatusFailure
		out.Error = &agui.OutputError{Code: "tool_failed", Message: m.Error}
	}
	return out
}

// AnswersOf prepares what a request for a run of the thread answers, nil when nothing: what its resume says, and its
// messages with the results of the client's own tools. known says which messages the thread has already.
func AnswersOf(ctx context.Context, r model.ByKey, threadKey int64, resume []agui.ResumeEntry, msgs []agui.Message, known map[string]bool) (*decide.Answers, error) {
	if len(resume) == 0 && !slices.ContainsFunc(msgs, func(m agui.Message) bool { return m.Role == agui.RoleTool }) {
		return nil, nil
	}
	open, err := r.OpenRuns(ctx, threadKey)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(open, func(r model.RunHead) bool { return r.Status == model.Waiting })
	if i < 0 {
		return nil, nil
	}
	all, err := r.Interrupts(ctx, open[i].Key)
	if err != nil {
		return nil, err
	}
	a := &decide.Answers{Run: open[i].Key}
	if a.Replies, err = RepliesTo(all, resume); err != nil {
		return nil, err
	}
	for j := range msgs {
		m := &msgs[j]
		in := interrupt(all, m.ToolCallID)
		if m.Role != agui.RoleTool || in == nil || !in.Frontend || in.Status != model.InterruptOpen || slices.ContainsFunc(a.Replies, func(r decide.Reply) bool { return r.Interrupt == in.ID }) {
			continue
		}
		id := m.ID
		if known[id] {
			id = ""
		}
		a.Replies = append(a.Replies, replyTo(in, agui.ResumeEntry{Status: model.InterruptResolved, Payload: mustJSON(frontendOutput(m))}, id))
	}
	if len(a.Replies) == 0 {
		return nil, nil
	}
	return a, nil
}
