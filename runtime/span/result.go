package span

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Result is the result of a call, with an encoded output that the record of the call has too.
type Result struct {
	agui.ToolCallResult
	output []byte // without parts, which the event has
}

// NewResult returns the result of a call.
func NewResult(call string, out *agui.ToolOutput) Result {
	shown := *out
	shown.Parts = nil
	output, _ := shown.MarshalJSON() // never fails
	return Result{
		ToolCallResult: agui.ToolCallResult{
			MessageID: data.NewID(), ToolCallID: call, Content: out.ResultSummary, Parts: out.Parts, Output: &shown,
		},
		output: output,
	}
}

// IsValid reports whether the output is JSON. Raw members may be none.
func (t Result) IsValid() bool { return json.Valid(t.output) }

// Memo returns the output as its record stores it, with its parts.
func (t Result) Memo() json.RawMessage {
	if len(t.Parts) == 0 {
		return t.output
	}
	return slices.Concat(t.output[:len(t.output)-1], []byte(`,"parts":`), t.Parts, []byte("}"))
}

// WithCommon returns the event with its common members replaced, and still encoded.
func (t Result) WithCommon(b agui.Base) agui.Event {
	t.Base = b
	return t
}

// AppendJSON appends the event in projection p.
func (t Result) AppendJSON(dst []byte, p agui.Projection) []byte {
	if p == agui.Stored {
		return t.AppendStored(dst, t.output)
	}
	return t.ToolCallResult.AppendJSON(dst, p)
}

// Codes of early ends of calls and messages.
const (
	CodeCancelled   = "cancelled"
	CodeInterrupted = "interrupted"
)

// FailedCall returns the result of a call that gets no other.
func FailedCall(id, name, code string) agui.ToolCallResult {
	summary := "The call was interrupted before it returned"
	if code == CodeCancelled {
		summary = "The call was cancelled before it returned"
	}
	out := agui.ToolOutput{
		ToolName: name, ToolCallID: id, Status: agui.StatusFailure, ResultSummary: summary,
		Error: &agui.OutputError{Code: code, Message: summary},
	}
	return agui.ToolCallResult{MessageID: data.NewID(), ToolCallID: id, Content: summary, Output: &out}
}

// Tool returns the name of the tool of a call that may still owe a result.
func (sp *Span) Tool(call string) string { return sp.calls[call] }

// OfItsCall overwrites the name, id and arguments in a result that a worker emits with those of its call. Other arguments would look like
// an approver's edit.
func (sp *Span) OfItsCall(ev agui.Event) agui.Event {
	e, ok := ev.(agui.ToolCallResult)
	if !ok || e.Output == nil {
		return ev
	}
	out := *e.Output
	out.ToolName, out.ToolCallID, out.ToolCallArgs = sp.calls[e.ToolCallID], e.ToolCallID, Args(json.RawMessage(sp.Fold.Arguments(e.ToolCallID)))
	e.Output = &out
	return e
}

// Args returns arguments without white space, or nil unless they are an object.
func Args(args json.RawMessage) json.RawMessage {
	var short bytes.Buffer
	if json.Compact(&short, args) != nil || short.Bytes()[0] != '{' {
		return nil
	}
	return short.Bytes()
}

// Bounded returns an output that fits into an event of so many bytes. It cuts a long answer, because the message's deltas
// have all of it, and drops the other members if they are still too large.
func Bounded(out *agui.WorkerOutput, event int) *agui.WorkerOutput {
	if out == nil {
		return nil
	}
	short := *out
	most := AnswerBytes(event)
	short.Answer = data.Clip(short.Answer, most)
	if len(data.MustJSON(&short)) > event-most {
		short = agui.WorkerOutput{Status: short.Status, Answer: short.Answer, Error: short.Error}
	}
	return &short
}

// AnswerBytes is the length of an answer that certainly fits into an event of so many bytes beside the rest: a character has
// at most six bytes as JSON.
func AnswerBytes(event int) int { return min(1<<20, event/7) }
