package plugins

import (
	"encoding/json"
	"fmt"

	"github.com/batonrun/baton/runtime/agui"
)

// admit applies rule 10 of docs/protocol.md, 2.2: it rewrites the role and attribution of ev and refuses events that only
// Baton writes.
func (r *Run) admit(ev agui.Event) (agui.Event, error) {
	if r.external {
		ev = ev.WithCommon(withoutOwnership(ev.Common()))
	}
	switch e := ev.(type) {
	case agui.TextMessageStart:
		e.Role = r.storedRole(e.Role)
		return e, nil
	case agui.Custom:
		if isReserved(e.Name) {
			return nil, illegal("The CUSTOM event %q is Baton's own", e.Name)
		}
	}
	return ev, nil
}

// withoutOwnership removes metadata members that Baton writes itself from an External worker's event, and its agent.
func withoutOwnership(b agui.Base) agui.Base {
	b.Agent = ""
	var members map[string]json.RawMessage
	if b.Metadata == nil || json.Unmarshal(b.Metadata, &members) != nil {
		return b
	}
	for name := range members {
		if agui.IsReservedMember(name) {
			delete(members, name)
			b.Metadata = nil
		}
	}
	if b.Metadata == nil && len(members) > 0 {
		b.Metadata, _ = json.Marshal(members) // it was decoded from JSON
	}
	return b
}

// storedRole returns the stored role of a text that the worker emits with role.
func (r *Run) storedRole(role agui.Role) agui.Role {
	switch {
	case role == "", role == agui.RoleUser, role == agui.RoleDeveloper, role == agui.RoleSystem && r.external:
		return agui.RoleAssistant
	}
	return role
}

// isReserved reports whether only Baton writes CUSTOM events of that name.
func isReserved(name string) bool {
	switch name {
	case agui.ProgressEvent, agui.RetractedEvent, agui.ParkedEvent, agui.WokenEvent, agui.ModelCallEvent, agui.CompactedEvent, agui.GuardEvent, agui.BudgetEvent, "log-reset":
		return true
	}
	return false
}

func illegal(format string, args ...any) error {
	return &Error{Code: "illegal_event", Message: fmt.Sprintf(format, args...)}
}
