package runtime

import (
	"cmp"
	"context"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/tail"
)

// Asked is an open question of a run, or a call that its client has to answer, with the question's owner.
type Asked struct {
	Question
	Interrupt agui.Interrupt // as in the run's own list of interrupts
}

// Questions lists the open questions of runs that the caller may see, oldest first.
func (rs *Runs) Questions(ctx context.Context, c Caller, f QuestionFilter) (Page[Asked], error) {
	if err := c.check(); err != nil {
		return Page[Asked]{}, err
	}
	f.Project = c.project
	f.User = cmp.Or(c.only(), f.User)
	page, err := rs.store.Questions(ctx, f)
	if err != nil {
		return Page[Asked]{}, unavailable(err)
	}
	asked := make([]Asked, len(page.Rows))
	for i, q := range page.Rows {
		asked[i].Question = q
		if asked[i].Interrupt, err = tail.Asks(&q.Interrupt); err != nil {
			return Page[Asked]{}, err
		}
		asked[i].Interrupt.Answerable = new(rs.mayAnswer(c, &q.Interrupt, q.User))
	}
	return Page[Asked]{Rows: asked, More: page.More, Total: page.Total, Counted: page.Counted}, nil
}
