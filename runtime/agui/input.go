package agui

import (
	"encoding/json"
	"errors"
)

// UnmarshalJSON reads a client's request. Any member may be missing or null; one of the wrong type is an
// error that names it.
func (in *RunAgentInput) UnmarshalJSON(data []byte) error {
	*in = RunAgentInput{}
	err := eachMember(data, func(name string, val []byte) error { return in.Set(name, val) })
	if errors.Is(err, errShape) {
		return errors.New("the request must be a JSON object")
	}
	return err
}

// Set stores one member of a request, valid JSON, as UnmarshalJSON reads it. A member of another name is nothing to it.
func (in *RunAgentInput) Set(name string, val json.RawMessage) error {
	switch name {
	case "threadId":
		return setString(&in.ThreadID, name, val)
	case "runId":
		return setString(&in.RunID, name, val)
	case "protocolVersion":
		return setString(&in.ProtocolVersion, name, val)
	case "parentRunId":
		return setString(&in.ParentRunID, name, val)
	case "state":
		return setOpt(&in.State, name, val)
	case "messages":
		return setList(&in.Messages, name, val)
	case "tools":
		return setList(&in.Tools, name, val)
	case "context":
		return setList(&in.Context, name, val)
	case "forwardedProps":
		return setOpt(&in.ForwardedProps, name, val)
	case "resume":
		return setList(&in.Resume, name, val)
	}
	return nil
}

// MarshalJSON returns in as AG-UI writes it, always with messages, tools and context.
func (in RunAgentInput) MarshalJSON() ([]byte, error) { return in.append(nil, Stored), nil }

// tidy converts the result of encoding/json to the encoders' form.
func (t *Tool) tidy() error {
	dropNulls(&t.Parameters, &t.Metadata)
	return objects("metadata", t.Metadata)
}

func (r *ResumeEntry) tidy() error {
	dropNulls(&r.Payload, &r.Metadata)
	return objects("metadata", r.Metadata)
}

func (in *Interrupt) tidy() error {
	dropNulls(&in.ResponseSchema, &in.Metadata)
	return errors.Join(objects("responseSchema", in.ResponseSchema), objects("metadata", in.Metadata))
}

func (o *Outcome) tidy() error {
	if o.Type == OutcomeNone {
		return within("type", errors.New("is missing"))
	}
	if len(o.Interrupts) == 0 {
		o.Interrupts = nil
	}
	if len(o.PendingToolCallIDs) == 0 {
		o.PendingToolCallIDs = nil
	}
	for i := range o.Interrupts {
		if err := o.Interrupts[i].tidy(); err != nil {
			return within("interrupts", err)
		}
	}
	return nil
}

func (o *WorkerOutput) tidy() error {
	o.Status = or(o.Status, StatusSuccess)
	dropNulls(&o.UIHints, &o.Result)
	if len(o.KeyPoints) == 0 {
		o.KeyPoints = nil
	}
	if len(o.SuggestedActions) == 0 {
		o.SuggestedActions = nil
	}
	if err := o.Error.tidy(); err != nil {
		return within("error", err)
	}
	return objects("ui_hints", o.UIHints)
}

func (o *ToolOutput) tidy() error {
	o.Status = or(o.Status, StatusSuccess)
	dropNulls(&o.ToolCallArgs, &o.UIHints, &o.Parts)
	if err := o.Error.tidy(); err != nil {
		return within("error", err)
	}
	return errors.Join(objects("tool_call_args", o.ToolCallArgs), objects("ui_hints", o.UIHints))
}

func (e *OutputError) tidy() error {
	if e == nil {
		return nil
	}
	dropNulls(&e.Details)
	return objects("details", e.Details)
}

// dropNulls makes raw members that are null absent.
func dropNulls(raws ...*json.RawMessage) {
	for _, raw := range raws {
		if isNull(*raw) {
			*raw = nil
		}
	}
}

// objects reports a member that is there and not an object.
func objects(name string, raw json.RawMessage) error {
	if raw != nil && raw[0] != '{' {
		return within(name, errors.New("must be an object"))
	}
	return nil
}
