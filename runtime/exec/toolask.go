package exec

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
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
