package decide

import (
	"cmp"

	"github.com/batonrun/baton/runtime/model"
)

// By says on whose request a command was made, for the audit: who has asked for what from where. The decision fills in the
// rest. It is empty when nobody has asked who is to be noted.
type By struct {
	Request *model.Audit
}

func (b By) asked() *model.Audit { return b.Request }

// note puts the row that tells who has asked, if the decision has changed anything.
func (d *decision) note(c Command) {
	by, ok := c.(interface{ asked() *model.Audit })
	if !ok || by.asked() == nil || len(d.out.Rows) == 0 {
		return
	}
	row := *by.asked()
	row.At, row.Action = d.v.Now, cmp.Or(d.action, row.Action)
	row.Project, row.User, row.ThreadID = d.v.Thread.Project, d.v.Thread.User, d.v.Thread.ID
	row.RunID = d.out.Run.ID
	switch c.(type) {
	case *Cancel, *Finish, *Close: // also when another request needs it
		row.Action = "cancel"
	}
	d.put(&row)
	for _, id := range d.replaced { // whoever ends them then
		cancel := row
		cancel.Action, cancel.RunID = "cancel", id
		d.put(&cancel)
	}
}
