package plugins

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Approver says who may give an approval, and what they see. By default everybody may who may answer the run's questions, its user among
// them.
type Approver struct {
	By           string        `json:",omitempty"` // the lowest role: ByUser, the default, ByOperator or ByAdmin
	NotRequester bool          `json:",omitempty"` // the user who has started the run may not; needs another By than ByUser
	Message      string        `json:",omitempty"` // an expression for the question: of args for a call, of what Input sees for a node
	Expires      time.Duration `json:",omitempty"` // how long the approval stays open, default that of the server
	NoEdit       bool          `json:",omitempty"` // the arguments may not be edited
}

// The roles of approvers.
const (
	ByUser     = "user"
	ByOperator = "operator"
	ByAdmin    = "admin"
)

// Validate returns an error for an Approver who cannot exist.
func (a Approver) Validate() error {
	switch {
	case a.By != "" && a.By != ByUser && a.By != ByOperator && a.By != ByAdmin:
		return fmt.Errorf("approver: By is %q, and must be user, operator or admin", a.By)
	case a.NotRequester && rankOf(a.By) == 0:
		return errors.New("approver: a user approves only in their own runs, so NotRequester needs By operator or admin")
	case a.Expires < 0:
		return errors.New("approver: Expires is negative")
	}
	return nil
}

func rankOf(by string) int { return map[string]int{ByOperator: 1, ByAdmin: 2}[by] }

// And returns an Approver who satisfies both. The message is a's, else b's.
func (a Approver) And(b Approver) Approver {
	if rankOf(b.By) > rankOf(a.By) {
		a.By = b.By
	}
	a.NotRequester, a.NoEdit = a.NotRequester || b.NotRequester, a.NoEdit || b.NoEdit
	if a.Expires == 0 || b.Expires != 0 && b.Expires < a.Expires {
		a.Expires = b.Expires
	}
	a.Message = cmp.Or(a.Message, b.Message)
	return a
}

// Excluding returns the names of the plugins with approvals that not everybody may give who may answer questions. Without accounts
// everybody may give these, too.
func Excluding(list []Plugin) (names []string) {
	excludes := func(a Approver) bool { return rankOf(a.By) > 0 || a.NotRequester }
	for _, p := range list {
		w, _ := p.(Workflow)
		if excludes(p.Info().Approver) || slices.ContainsFunc(w.Nodes, func(n Node) bool { return excludes(n.Approver) }) {
			names = append(names, p.Info().Name)
		}
	}
	return names
}
