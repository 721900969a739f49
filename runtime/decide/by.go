package decide

import (
	"cmp"

	"github.com/batonrun/baton/runtime/data"
)

// By names the requester of a command for the audit log. The decision fills in the rest of the row. A nil Request is
// not audited.
type By struct {
	Request *data.Audit
}

func (b By) request() *data.Audit { return b.Request }

// putAudit writes the audit row if the decision has changed anything.
func (d *decision) putAudit(c Command) {
	by, ok := c.(interface{ request() *data.Audit })
	if !ok || by.request() == nil || len(d.out.Rows) == 0 {
		return
	}
	if _, ok := c.(*Cancel); ok && d.out.Run.Status == data.Running { // its owner records it
		return
	}
	row := *by.request()
	row.At, row.Action = d.v.Now, cmp.Or(d.action, row.Action)
	row.Project, row.User, row.ThreadID = d.v.Thread.Project, d.v.Thread.User, d.v.Thread.ID
	row.RunID = d.out.Run.ID
	switch c.(type) {
	case *Cancel, *Finish: // also if another request causes it
		row.Action = "cancel"
	}
	d.put(&row)
	for _, id := range d.toReplace { // the requester of their replacement, whichever process ends them
		cancel := row
		cancel.Action, cancel.RunID = "cancel", id
		d.put(&cancel)
	}
}
