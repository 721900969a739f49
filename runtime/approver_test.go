package runtime_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// An approval is given by those whom its approver names, of a tool, a node and an agent as a tool alike. Others may only decline it.
func TestApprover_IsNamed(t *testing.T) {
	t.Parallel()
	ann := runtime.MustCaller("p", "ann", runtime.RoleUser)
	annOperates := runtime.MustCaller("p", "ann", runtime.RoleOperator)
	bob := runtime.MustCaller("p", "bob", runtime.RoleOperator)
	eve := runtime.MustCaller("p", "eve", runtime.RoleAdmin)
	forAnn := func(c runtime.Caller, least runtime.Role) runtime.Caller {
		c, err := c.InSteadOf("ann", least)
		must(t, err)
		return c
	}
	viewer := runtime.MustCaller("p", "vic", runtime.RoleViewer)
	operator := plugins.Approver{By: plugins.ByOperator}
	other := plugins.Approver{By: plugins.ByOperator, NotRequester: true, NoEdit: true, Expires: time.Hour, Message: "'Pay ' + string(args.cents) + '?'"}
	pay := func(name string, by plugins.Approver) tool {
		return tool{plugins.Info{Name: name, Approval: true, Approver: by}, func(_ context.Context, c *plugins.Call) (agui.ToolOutput, error) {
			return agui.ToolOutput{ResultSummary: "paid " + string(c.Args)}, nil
		}}
	}
	caller := func(name, tool string) agent {
		return agent{name, func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			out, err := run.CallTool(ctx, tool, map[string]int{"cents": 5})
			return agui.WorkerOutput{Answer: out.ResultSummary}, err
		}}
	}
	node := func(name string, n plugins.Node) plugins.Workflow {
		n.ID = "n"
		return plugins.Workflow{Name: name, Nodes: []plugins.Node{n}}
	}
	asNode := other
	asNode.Message = "'Pay for ' + query + '?'"
	b := open(t, runtime.Config{Accounts: true},
		pay("pay", plugins.Approver{}), pay("operated", operator), pay("others", other), pay("admins", plugins.Approver{By: plugins.ByAdmin}),
		caller("by-user", "pay"), caller("by-operator", "operated"), caller("by-others", "others"), caller("by-admin", "admins"),
		answering("echo", func(q string) string { return q }),
		agent{"shadowed", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			_, err := run.Ask(ctx, agui.Interrupt{Message: "Well?", Metadata: json.RawMessage(`{"by": "operator", "By": "user"}`)})
			return agui.WorkerOutput{Answer: "done"}, err
		}},
		node("tool-node", plugins.Node{Tool: "pay", Input: `{"cents": 5}`, Approval: true, Approver: asNode}),
		node("ask-node", plugins.Node{Ask: &plugins.Ask{}, Approver: asNode}),
		node("agent-node", plugins.Node{Agent: "echo", Approval: true, Approver: asNode}),
	)
	yes, edited := json.RawMessage(`{"approved": true}`), json.RawMessage(`{"approved": true, "editedArgs": {"cents": 99999}}`)
	type try struct {
		by      runtime.Caller
		payload json.RawMessage
		code    string
	}
	for name, test := range map[string]struct {
		message string
		tries   []try
	}{
		"by-user":     {"Allow pay?", []try{{ann, yes, ""}}},
		"by-operator": {"Allow operated?", []try{{ann, yes, "operators_only"}, {annOperates, edited, ""}}},
		"by-others":   {"Pay 5?", []try{{ann, yes, "operators_only"}, {annOperates, yes, "not_requester"}, {bob, edited, "invalid_arguments"}, {bob, yes, ""}}},
		"shadowed":    {"Well?", []try{{ann, yes, "operators_only"}, {annOperates, yes, ""}}},
		"by-admin":    {"Allow admins?", []try{{ann, yes, "admins_only"}, {bob, yes, "admins_only"}, {forAnn(bob, runtime.RoleOperator), yes, "admins_only"}, {forAnn(eve, runtime.RoleOperator), yes, ""}}},
		"tool-node":   {"Pay for go?", []try{{annOperates, yes, "not_requester"}, {bob, edited, "invalid_arguments"}, {eve, yes, ""}}},
		"ask-node":    {"Pay for go?", []try{{ann, yes, "operators_only"}, {annOperates, yes, "not_requester"}, {bob, yes, ""}}},
		"agent-node":  {"Pay for go?", []try{{ann, yes, "operators_only"}, {annOperates, yes, "not_requester"}, {bob, yes, ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			req := runtime.StartRequest{Agent: name, ThreadID: name, Messages: user("go")}
			if strings.HasSuffix(name, "-node") {
				req.Agent, req.WorkflowID = "", name
			}
			s, err := b.StartRun(t.Context(), ann, req)
			must(t, err)
			b.waitAs(ann, s.RunID, runtime.Waiting)
			asked, err := b.Runs.Interrupts(t.Context(), ann, s.RunID)
			if err != nil || len(asked) != 1 || asked[0].Message != test.message {
				t.Fatalf("it asks %+v, %v, want %q", asked, err, test.message)
			}
			b.wantAnswerable(forAnn(viewer, runtime.RoleViewer), s.RunID, false)
			for _, try := range test.tries {
				b.wantAnswerable(try.by, s.RunID, try.code == "" || try.code == "invalid_arguments")
				_, err := b.Resume(t.Context(), try.by, s.RunID, []agui.ResumeEntry{{InterruptID: asked[0].ID, Status: "resolved", Payload: try.payload}})
				if (err == nil) != (try.code == "") || err != nil && code(err) != try.code {
					t.Errorf("%s (%v) answers %s: %v, want %q", try.by.User(), try.by.Role(), try.payload, err, try.code)
				}
			}
			b.waitAs(ann, s.RunID, runtime.Completed)
		})
	}
}

// The user who started a run may decline what only others may approve.
func TestApprover_OthersDecline(t *testing.T) {
	t.Parallel()
	ann := runtime.MustCaller("p", "ann", runtime.RoleUser)
	flow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{
		ID: "n", Agent: "echo", Approval: true, Approver: plugins.Approver{By: plugins.ByAdmin, NotRequester: true},
	}}}
	b := open(t, runtime.Config{Accounts: true}, answering("echo", func(q string) string { return q }), flow)
	s, err := b.StartRun(t.Context(), ann, runtime.StartRequest{WorkflowID: "flow", Messages: user("go")})
	must(t, err)
	b.waitAs(ann, s.RunID, runtime.Waiting)
	asked, err := b.Runs.Interrupts(t.Context(), ann, s.RunID)
	if err == nil {
		_, err = b.Resume(t.Context(), ann, s.RunID, []agui.ResumeEntry{{InterruptID: asked[0].ID, Status: "cancelled"}})
	}
	if run := b.waitAs(ann, s.RunID, runtime.Failed); err != nil || run.Error.Code != "denied" {
		t.Errorf("it ends with %+v, %v", run.Error, err)
	}
}

// wantAnswerable checks what lists of the question of a run tell a caller.
func (b *bench) wantAnswerable(who runtime.Caller, run string, want bool) {
	b.t.Helper()
	own, err := b.Runs.Interrupts(b.t.Context(), who, run)
	if err != nil || len(own) != 1 || *own[0].Answerable != want {
		b.t.Errorf("%s (%v) sees the run ask %+v, %v, want answerable %v", who.User(), who.Role(), own, err, want)
	}
	all, err := rows(b.Runs.Questions(b.t.Context(), who, runtime.QuestionFilter{Limit: 10}))
	at := slices.IndexFunc(all, func(q runtime.Asked) bool { return q.RunID == run })
	if err != nil || at < 0 || *all[at].Interrupt.Answerable != want {
		b.t.Errorf("%s (%v) sees the questions %+v, %v, want answerable %v", who.User(), who.Role(), all, err, want)
	}
}
