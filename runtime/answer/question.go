package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/tail"
)

const approvalSchema = `{
	"type": "object", "required": ["approved"], "additionalProperties": false,
	"properties": {"approved": {"type": "boolean"}, "editedArgs": {"type": "object"}}
}`

// CheckQuestion returns an error for a question that clients could not decode or answer.
func CheckQuestion(body json.RawMessage) error {
	var q struct{ ResponseSchema, Metadata json.RawMessage }
	if err := json.Unmarshal(body, &q); err != nil {
		return err
	}
	absent := func(raw json.RawMessage) bool { return raw == nil || string(raw) == "null" }
	if !absent(q.Metadata) && q.Metadata[0] != '{' {
		return errors.New("metadata must be an object")
	}
	if _, err := readAnswerers(q.Metadata); err != nil {
		return err
	}
	if absent(q.ResponseSchema) {
		return nil
	}
	if q.ResponseSchema[0] != '{' {
		return errors.New("responseSchema must be an object")
	}
	if _, err := graph.CompileSchema(q.ResponseSchema); err != nil {
		return fmt.Errorf("responseSchema is no JSON Schema that Baton can use: %w", err)
	}
	return nil
}

// Responder identifies the author of an answer.
type Responder struct {
	User string `json:"user"`
	Role string `json:"role"`

	Operates    bool `json:"-"` // may answer questions for operators
	Administers bool `json:"-"` // may answer questions for admins
	Alone       bool `json:"-"` // there are no accounts, so there is no other to answer
}

// answerers is the part of a question's metadata that says who may answer it. Everybody may cancel it who may cancel the run.
type answerers struct {
	By   string `json:"by,omitempty"`   // the lowest role: plugins.ByOperator or ByAdmin; everybody by default
	Not  string `json:"not,omitempty"`  // requester: the user who has started the run
	Edit *bool  `json:"edit,omitempty"` // false if the arguments may not be edited
}

const notRequester = "requester"

// ForApprover adds the answerers to a question's metadata.
func ForApprover(metadata json.RawMessage, by plugins.Approver) json.RawMessage {
	var all map[string]json.RawMessage // the arguments among it as they were written
	if json.Unmarshal(metadata, &all) != nil {
		return metadata
	}
	if by.By != "" && by.By != plugins.ByUser {
		all["by"] = data.MustJSON(by.By)
	}
	if by.NotRequester {
		all["not"] = data.MustJSON(notRequester)
	}
	if by.NoEdit {
		all["edit"] = data.MustJSON(false)
	}
	return data.MustJSON(all)
}

// answerersOf returns the part of a question's metadata about its answerers.
func answerersOf(in *data.Interrupt) (by answerers) {
	var asks struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	if in.Body != nil && json.Unmarshal(in.Body, &asks) == nil {
		by, _ = readAnswerers(asks.Metadata)
	}
	return by
}

// readAnswerers reads answerers. It fails if their words do not exist, because everybody might answer then.
func readAnswerers(metadata json.RawMessage) (by answerers, err error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(metadata, &members) != nil {
		return by, nil // it is no object
	}
	for name, into := range map[string]any{"by": &by.By, "not": &by.Not, "edit": &by.Edit} {
		if raw, ok := members[name]; ok && json.Unmarshal(raw, into) != nil {
			return by, fmt.Errorf("metadata.%s has another type", name)
		}
	}
	switch {
	case by.By != "" && by.By != plugins.ByUser && by.By != plugins.ByOperator && by.By != plugins.ByAdmin:
		return by, errors.New("metadata.by must be user, operator or admin")
	case by.Not != "" && by.Not != notRequester:
		return by, errors.New("metadata.not must be requester")
	}
	return by, nil
}

var (
	errOperators = data.Refuse(data.KindForbidden, "operators_only", "Only an operator may answer this question; you may cancel it")
	errAdmins    = data.Refuse(data.KindForbidden, "admins_only", "Only an admin may answer this question; you may cancel it")
	errRequester = data.Refuse(data.KindForbidden, "not_requester", "You have started the run, and somebody else must answer this question; you may cancel it")
)

// MayAnswer returns the reason why a person may not answer a question of a user's run, or nil.
func MayAnswer(in *data.Interrupt, user string, by Responder) error {
	switch asks := answerersOf(in); {
	case asks.By == plugins.ByAdmin && !by.Administers:
		return errAdmins
	case asks.By == plugins.ByOperator && !by.Operates:
		return errOperators
	case asks.Not == notRequester && by.User == user && !by.Alone:
		return errRequester
	}
	return nil
}

// Decision is an operator's answer to the question of a budget.
type Decision struct {
	Action string  `json:"action"`
	Limit  float64 `json:"limit"`
}

// DecisionIn returns the decision in the record of an answer; it is to end the run if the question was cancelled.
func DecisionIn(record json.RawMessage) (d Decision) {
	var a plugins.Answer
	if json.Unmarshal(record, &a) != nil || a.Cancelled || json.Unmarshal(a.Payload, &d) != nil {
		return Decision{Action: "end"}
	}
	return d
}

// budgetAsked is the metadata of a budget's question.
type budgetAsked struct {
	By       string     `json:"by"`
	Kind     string     `json:"kind"`
	Name     string     `json:"name"`
	Scope    string     `json:"scope"`
	Subject  string     `json:"subject,omitempty"`
	Unit     string     `json:"unit"`
	Used     float64    `json:"used"`
	Limit    float64    `json:"limit"`
	Since    *time.Time `json:"since,omitempty"` // when the period began
	ResetsAt *time.Time `json:"resetsAt,omitempty"`
}

// decisionSchema is the schema of an Decision, without the limit that a raise must exceed.
const decisionSchema = `{"type": "object", "required": ["action"], "additionalProperties": false, "properties": {
	"action": {"title": "Action", "type": "string", "enum": ["raise", "continue", "end"]},
	"limit": {"title": "New limit", "type": "number", "exclusiveMinimum": %g}},
	"if": {"properties": {"action": {"const": "raise"}}}, "then": {"required": ["limit"]}}`

// BudgetQuestion returns the question whether a run may go on that has used up a budget.
func BudgetQuestion(b *data.BudgetState, ends time.Time) agui.Interrupt {
	asked := budgetAsked{
		By: plugins.ByOperator, Kind: "budget", Name: b.Name, Scope: b.Scope, Subject: b.Subject, Unit: b.Unit, Used: b.Value(b.Used), Limit: b.Value(b.Amount),
	}
	if !b.EachRun() {
		asked.Since, asked.ResetsAt = &b.From, &b.ResetsAt
	}
	return agui.Interrupt{
		ID: data.NewID(), Reason: "input_required", Message: b.String() + ". Raise it, let this run continue, or end the run?",
		ResponseSchema: json.RawMessage(fmt.Sprintf(decisionSchema, asked.Limit)), Metadata: data.MustJSON(asked), ExpiresAt: ends.Format(time.RFC3339Nano),
	}
}

// raisedBy returns the rows that an answer to the question of a budget writes. Only the engine asks at step 0.
func raisedBy(run *data.RunHead, in *data.Interrupt, payload json.RawMessage) []data.Row {
	if in.Step != 0 || in.Frontend || payload == nil {
		return nil
	}
	body, err := tail.Asks(in)
	var asked budgetAsked
	var d Decision
	if err != nil || json.Unmarshal(body.Metadata, &asked) != nil || json.Unmarshal(payload, &d) != nil || d.Action != "raise" || asked.Since == nil {
		return nil
	}
	b := data.Budget{Unit: asked.Unit}
	return []data.Row{&data.Raise{Budget: asked.Name, Project: run.Project, Subject: asked.Subject, From: *asked.Since, Amount: b.Amount(d.Limit)}}
}
