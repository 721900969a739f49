package exec

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/answer"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/journal"
	"github.com/batonrun/baton/runtime/tail"
)

// codeDeclined is the code of a tool's question that is not put to a person.
const codeDeclined = "input_declined"

// maxAsked limits the questions of one call, because a tool may never ask the same ones.
const maxAsked = 20

// maxKey limits the bytes of a question's key in a place.
const maxKey = 70

// asks returns how a tool asks a person until ctx, the call's, is done. It sets waits once an answer is missing: the call then has
// no result, whatever the tool returns, and is made again with the answer.
func (c *toolCall) asks(ctx context.Context, info *plugins.Info, waits *atomic.Bool) func(string, agui.Interrupt) (plugins.Answer, error) {
	return func(key string, q agui.Interrupt) (plugins.Answer, error) {
		if err := context.Cause(ctx); err != nil {
			return plugins.Answer{}, err
		}
		if !info.Idempotent {
			return plugins.Answer{}, &plugins.Error{Code: codeDeclined, Message: "Only an idempotent tool can ask a person, because its call is repeated with the answer"}
		}
		if len(key) > maxKey { // else Question would hide the prefix that asked counts
			key = fmt.Sprintf("~%x", sha256.Sum256([]byte(key)))
		}
		m, err := c.s.em.memo(plugins.Use{Place: c.u.Question(key)})
		if err != nil {
			return plugins.Answer{}, err
		}
		if m.CallID == "" && c.asked() == maxAsked {
			return plugins.Answer{}, &plugins.Error{Code: codeDeclined, Message: fmt.Sprintf("A call can ask %d questions", maxAsked)}
		}
		q.ToolCallID = c.m.CallID
		if q.ExpiresAt == "" {
			q.ExpiresAt = expiry(c.s.l.cfg.ApprovalTimeout)
		}
		if q.Metadata == nil {
			q.Metadata = tail.CallMetadata("question", c.u.Name, c.executed())
		}
		a, err := c.s.question(m, "", q)
		if errors.Is(err, plugins.ErrWaiting) {
			waits.Store(true)
		}
		return a, err
	}
}

func (c *toolCall) asked() int {
	c.s.l.out.mu.Lock()
	defer c.s.l.out.mu.Unlock()
	return c.s.l.out.journal.Count(c.s.w.Step, c.u.Question(""))
}

func (c *toolCall) approvalMemo() (*data.Memo, error) {
	return c.s.em.memo(plugins.Use{Place: c.u.Inside(journal.ApprovalPlace)})
}

// approved reports whether the call may be made. It asks a person if the call needs an approval, or if one was requested before
// the tool was replaced by one without approvals. The answer has its own record, below the call's place.
func (c *toolCall) approved(info *plugins.Info) (bool, error) {
	m, err := c.approvalMemo()
	if !c.s.approves && !info.Approval && c.u.Approval == "" && (err != nil || !m.Done && m.CallID == "") {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	approver, asks := plugins.Approver{}, func() (message string, err error) { return "", nil }
	if c.s.approves {
		approver, asks = c.s.approver, c.s.message
	}
	if info.Approval {
		approver = approver.And(info.Approver)
	}
	a, err := c.s.approval(m, c.u.Name, approver, func() (agui.Interrupt, error) {
		message, err := asks()
		if message == "" && err == nil && info.Approval {
			message, err = graph.CallMessage(c.s.w.Ctx, info.Approver.Message, c.guarded())
		}
		return agui.Interrupt{
			Reason: "tool_call", ToolCallID: c.m.CallID, Message: cmp.Or(message, c.u.Approval, fmt.Sprintf("Allow %s?", c.u.Name)),
			Metadata: tail.CallMetadata("approval", c.u.Name, c.guarded()),
		}, err
	})
	return err == nil && journal.ApprovalOf(a).Approved, err
}

// approval asks for an approval, or returns the answer. ask makes the question, which an approver gets.
func (s *step) approval(m *data.Memo, tool string, by plugins.Approver, ask func() (agui.Interrupt, error)) (plugins.Answer, error) {
	if m.Done || m.CallID != "" {
		return s.question(m, tool, agui.Interrupt{})
	}
	q, err := ask()
	if err != nil {
		return plugins.Answer{}, err
	}
	q.ExpiresAt = expiry(cmp.Or(by.Expires, s.l.cfg.ApprovalTimeout))
	q.Metadata = answer.ForApprover(q.Metadata, by)
	return s.question(m, tool, q)
}

// recheck asks the guards about arguments that an approver has edited. An output refuses them.
func (c *toolCall) recheck() (*agui.ToolOutput, error) {
	m, _ := c.approvalMemo()
	args := journal.EditedBy(m)
	if args == nil || c.u.Recheck == nil || c.m.Begun { // a call that has begun was checked before
		return nil, nil
	}
	out, err := c.u.Recheck(args)
	c.refused = out != nil
	return out, err
}

// executed returns the arguments of the executed call: the requested ones, or those that an approver or a guard has edited.
func (c *toolCall) executed() json.RawMessage {
	m, _ := c.approvalMemo()
	if args := journal.EditedBy(m); args != nil && !c.refused {
		return args
	}
	return c.guarded()
}

// guarded returns the arguments that the guards have left.
func (c *toolCall) guarded() json.RawMessage {
	if c.u.Edited != nil {
		return c.u.Edited
	}
	return c.u.Request
}

func denied() agui.ToolOutput { return failure("denied", "The call was not approved") }

func expiry(after time.Duration) string { return time.Now().Add(after).UTC().Format(time.RFC3339Nano) }

// approveAgent asks a person whether a node's agent may be run, and fails if it may not.
func (s *step) approveAgent(query string) error {
	m, err := s.em.memo(plugins.Use{Place: journal.ApprovalPlace})
	if err != nil {
		return err
	}
	a, err := s.approval(m, "", s.approver, func() (agui.Interrupt, error) {
		message, err := s.message()
		return agui.Interrupt{
			Reason: "confirmation", Message: cmp.Or(message, fmt.Sprintf("Run %s?", s.w.Agent)),
			Metadata: data.MustJSON(map[string]any{"nodeId": s.em.node, "agent": s.w.Agent, "query": data.Shown(query)}),
		}, err
	})
	if err != nil {
		return err
	}
	if !journal.ApprovalOf(a).Approved {
		return &plugins.Error{Code: "denied", Message: fmt.Sprintf("The node %s was not approved", s.em.node)}
	}
	return nil
}
