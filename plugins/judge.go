package plugins

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// judge returns the guard's verdict on a subject. It is recorded together with its event, and with the retraction of the messages ids
// unless the verdict leaves them as they are.
func (c checker) judge(ctx context.Context, g *Guard, s Subject, ids []string) (v Verdict, err error) {
	s.User, s.Project = c.run.Input.User, c.run.Input.Project
	subject, err := encode(s)
	if err != nil {
		return v, err
	}
	err = c.run.Do(ctx, "guard "+g.name()+" "+digest(string(subject)), &v, func(ctx context.Context) error { // a verdict is about this subject alone
		if v, err = c.decide(ctx, g, s); err != nil {
			return err
		}
		c.run.mu.Lock()
		defer c.run.mu.Unlock()
		err := c.run.host.Emit(agui.Ruling{Name: g.name(), On: s.On, Verdict: v.Verdict, Reason: v.Reason}.Event())
		if err != nil || v.Verdict == Allow || v.Verdict == AskPerson || v.Verdict == Rewrite && c.run.Input.Workflow != "" && !c.fixed {
			return err
		}
		return c.retract(ids)
	})
	return v, err
}

// retract retracts messages of the thread. A worker that another one called has none. A workflow's other nodes need the messages that
// a node's guard rewrites. The caller holds r.mu.
func (c checker) retract(ids []string) error {
	if len(ids) == 0 || c.run.Input.Subagent != "" {
		return nil
	}
	return c.run.host.Emit(agui.Retracted(ids))
}

// decide calls the guard. It fails only if the step is over: a guard without a usable verdict refuses.
func (c checker) decide(ctx context.Context, g *Guard, s Subject) (v Verdict, err error) {
	limited, cancel := context.WithTimeout(ctx, cmp.Or(g.Timeout, time.Minute))
	defer cancel()
	err = protect(func() (err error) {
		v, err = c.callGuard(limited, g, s)
		return err
	})
	if cause := context.Cause(ctx); cause != nil {
		return v, cause
	}
	if e, ok := errors.AsType[*Error](err); errors.Is(err, ErrWaiting) || ok && e.Code == "budget_exceeded" {
		return v, err // of its model: that is no verdict
	}
	if err == nil {
		err = v.fits(s.On)
	}
	if v.Verdict == Rewrite && s.On != GuardTool && s.Result == nil && v.Text == s.Input+s.Output {
		v = Verdict{Verdict: Allow, Reason: v.Reason}
	}
	shown, known := errors.AsType[*Error](err)
	known = known && (s.On != GuardOutput || shown == errNoVerdict || shown == errNoText) // another text can repeat the output
	switch {
	case limited.Err() != nil:
		v = Verdict{Verdict: Refuse, Reason: fmt.Sprintf("The guard %s did not decide in time", g.name())}
	case known:
		v = Verdict{Verdict: Refuse, Reason: fmt.Sprintf("The guard %s failed: %s", g.name(), shown.Message)}
	case err != nil:
		v = Verdict{Verdict: Refuse, Reason: fmt.Sprintf("The guard %s failed", g.name())}
	}
	if v.Reason = strings.ToValidUTF8(v.Reason, ""); len(v.Reason) > maxReason {
		v.Reason = strings.ToValidUTF8(v.Reason[:maxReason], "") + "…"
	}
	return v, nil
}

// maxReason limits the reason of a verdict, in bytes.
const maxReason = 2000

// guardCaller is host.GuardCaller.
type guardCaller interface {
	GuardAgent(ctx context.Context, u Use, query string) (agui.WorkerOutput, error)
	GuardTool(ctx context.Context, u Use) (agui.ToolOutput, error)
	FitArgs(tool string, args json.RawMessage) json.RawMessage
	ClientResult(tool, call string) (m agui.Message, ok bool)
}

func (c checker) callGuard(ctx context.Context, g *Guard, s Subject) (Verdict, error) {
	if g.Check != nil {
		return g.Check(ctx, s)
	}
	h, ok := c.run.host.(guardCaller)
	if !ok {
		return Verdict{}, &Error{Message: "agents and tools cannot be guards here"}
	}
	subject, err := encode(s)
	if err != nil {
		return Verdict{}, err
	}
	u, _, err := c.run.use(ctx, c.run.alive, "guard", digest(string(subject)), nil) // what a guard has recorded is for this subject alone
	if err != nil {
		return Verdict{}, err
	}
	ctx = (&scope{path: u.path()}).in(ctx)
	if u.Name = g.Agent; g.Agent != "" {
		out, err := h.GuardAgent(ctx, u, string(subject))
		if err != nil {
			return Verdict{}, err
		}
		return verdictOf(cmp.Or(string(out.Result), out.Answer))
	}
	u.Name, u.Request = g.Tool, subject
	out, err := h.GuardTool(ctx, u)
	if err == nil && out.Status == agui.StatusFailure {
		err = &Error{Message: out.ResultSummary}
	}
	if err != nil {
		return Verdict{}, err
	}
	return verdictOf(out.ResultSummary)
}

// passed is the result of all guards of one kind.
type passed struct {
	text      string // if rewritten
	rewritten bool
}

// pass asks the guards about an input or an output. It fails with the code guard_refused if one of them, or a person, refuses. The
// messages ids, which have the input, are retracted unless it is allowed as it is. People are asked last, so that they see what no guard
// has refused.
func (c checker) pass(ctx context.Context, guards []Guard, s Subject, ids []string) (p passed, err error) {
	var asks []func() error
	for i := range guards {
		g := &guards[i]
		v, err := c.judge(ctx, g, s, ids)
		if err != nil {
			return p, err
		}
		switch v.Verdict {
		case Refuse:
			return p, &Error{Code: codeRefused, Message: cmp.Or(v.Reason, fmt.Sprintf("The guard %s has refused the %s", g.name(), s.On))}
		case Rewrite:
			p.text, p.rewritten, ids = v.Text, true, nil
			if s.On == GuardInput {
				s.Input = v.Text
			} else {
				s.Output, s.Result = v.Text, nil
			}
		case AskPerson:
			asks = append(asks, func() error { return c.askPerson(ctx, g, s, v.Reason) })
		}
	}
	for _, ask := range asks {
		if err := ask(); err != nil {
			if isRefusal(err) {
				err = cmp.Or(c.retractOnce(ctx, ids), err)
			}
			return p, err
		}
	}
	return p, nil
}

// passFixed asks the guards about texts that they cannot rewrite: the agent or the log has them already.
func (c checker) passFixed(ctx context.Context, on string, texts, ids []string, what string) error {
	text := join(texts, "\n")
	if text == "" {
		return nil
	}
	guards, s := c.run.guards.Input, Subject{On: on, Input: text}
	if on == GuardOutput {
		guards, s = c.run.guards.Output, Subject{On: on, Output: text}
	}
	c.fixed = true
	p, err := c.pass(ctx, guards, s, ids)
	if err == nil && p.rewritten {
		err = &Error{Code: codeRefused, Message: fmt.Sprintf("A guard would rewrite %s, which is not possible", what)}
	}
	return err
}

func isRefusal(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == codeRefused
}

// retractOnce retracts messages of the thread that a person has refused.
func (c checker) retractOnce(ctx context.Context, ids []string) error {
	return c.run.Do(ctx, "retract", nil, func(context.Context) error {
		c.run.mu.Lock()
		defer c.run.mu.Unlock()
		return c.retract(ids)
	})
}

// answerSchema is the JSON Schema of a person's decision, which is that of an approval without edits.
const answerSchema = `{"type":"object","required":["approved"],"additionalProperties":false,"properties":{"approved":{"type":"boolean"}}}`

// askPerson fails unless a person allows the subject.
func (c checker) askPerson(ctx context.Context, g *Guard, s Subject, why string) error {
	about, err := json.Marshal(map[string]any{"kind": "guard", "guard": g.name(), "on": s.On, "text": s.Input + s.Output})
	if err != nil {
		return err
	}
	if len(about) > maxAbout {
		about, _ = json.Marshal(map[string]any{"kind": "guard", "guard": g.name(), "on": s.On})
	}
	a, err := c.run.Ask(ctx, agui.Interrupt{
		Reason: "confirmation", Message: cmp.Or(why, fmt.Sprintf("Allow the %s?", s.On)),
		ResponseSchema: json.RawMessage(answerSchema), Metadata: about,
	})
	if err != nil {
		return err
	}
	var given struct {
		Approved bool `json:"approved"`
	}
	if a.Cancelled || json.Unmarshal(a.Payload, &given) != nil || !given.Approved {
		return &Error{Code: codeRefused, Message: fmt.Sprintf("The %s was not approved", s.On)}
	}
	return nil
}

// maxAbout limits the text in a question to a person, in bytes.
const maxAbout = 128 << 10
