package runtime

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/batonrun/baton/runtime/agui"
)

// Asked is an open question of a run, or a call that its client has to answer, with whose it is.
type Asked struct {
	Question
	Interrupt agui.Interrupt // as the run's own list of them has it
}

// Questions lists what runs wait for that the caller may see, those first that were asked first.
func (rt *Runtime) Questions(ctx context.Context, c Caller, f QuestionFilter) (Page[Asked], error) {
	if err := c.check(); err != nil {
		return Page[Asked]{}, err
	}
	f.Project = c.project
	f.User = cmp.Or(c.only(), f.User)
	page, err := rt.store.Questions(ctx, f)
	if err != nil {
		return Page[Asked]{}, unavailable(err)
	}
	asked := make([]Asked, len(page.Rows))
	for i, q := range page.Rows {
		asked[i].Question = q
		if q.Frontend {
			asked[i].Interrupt = pendingCall(q.ID)
		} else if err := json.Unmarshal(q.Body, &asked[i].Interrupt); err != nil {
			return Page[Asked]{}, err
		}
	}
	return Page[Asked]{Rows: asked, More: page.More, Total: page.Total}, nil
}

// pendingCall is a call that its client has to answer, as lists of interrupts have it.
func pendingCall(id string) agui.Interrupt {
	return agui.Interrupt{ID: id, Reason: "tool_call", ToolCallID: id}
}
