package answer

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/tail"
)

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
