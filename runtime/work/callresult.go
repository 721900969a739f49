package work

import (
	"encoding/json"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// callResult is a call's result with an encoded output, which the record of the call has too.
type callResult struct {
	agui.ToolCallResult
	output []byte // without parts, which the event has
}

func newCallResult(m *data.Memo, out *agui.ToolOutput) callResult {
	shown := *out
	shown.Parts = nil
	output, _ := shown.MarshalJSON() // never fails
	return callResult{
		ToolCallResult: agui.ToolCallResult{
			MessageID: data.NewID(), ToolCallID: m.CallID, Content: out.ResultSummary, Parts: out.Parts, Output: &shown,
		},
		output: output,
	}
}

// memo returns the output as its record stores it, with its parts.
func (t callResult) memo() json.RawMessage {
	if len(t.Parts) == 0 {
		return t.output
	}
	return slices.Concat(t.output[:len(t.output)-1], []byte(`,"parts":`), t.Parts, []byte("}"))
}

// WithCommon returns the event with its common members replaced, and still encoded.
func (t callResult) WithCommon(b agui.Base) agui.Event {
	t.Base = b
	return t
}

// AppendJSON appends the event in projection p.
func (t callResult) AppendJSON(dst []byte, p agui.Projection) []byte {
	if p == agui.Stored {
		return t.AppendStored(dst, t.output)
	}
	return t.ToolCallResult.AppendJSON(dst, p)
}
