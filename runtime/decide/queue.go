package decide

import "github.com/batonrun/baton/runtime/data"

// PlaceOf returns a thread's row in the queue: see [data.Place].
func PlaceOf(v *data.View) data.Place { return placeOf(v, next(v, openRuns(v))) }

func placeOf(v *data.View, n Next) data.Place {
	if n.Do == data.NoTodo {
		return data.Place{ThreadKey: v.Thread.Key}
	}
	p := data.Place{
		ThreadKey: v.Thread.Key, Todo: n.Do, RunKey: n.Run.Key, Project: n.Run.Project, User: n.Run.User, Workflow: n.Run.WorkflowID,
		Agent: n.Run.Agent, Answered: n.Run.Answered, Since: n.Run.QueuedAt,
	}
	if n.Do == data.ToWake {
		p.Since = n.Run.Waits.Due
	}
	return p
}

// putPlace writes the thread's row in the queue if the decision has changed it, or repairs it.
func (d *decision) putPlace(c Command, before data.Place) {
	after := placeOf(d.v, d.out.Next)
	after.ThreadKey = d.out.Thread
	look, is := c.(*Look)
	if before.ThreadKey = after.ThreadKey; is && look.Repair || after != before { // a new thread had no key
		d.put(&after)
	}
}
