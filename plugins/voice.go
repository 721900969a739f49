package plugins

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
)

// SummaryActivity is the type of the activities that sum up turns which a model is not shown any more; their content is
// {upTo, text}, where upTo is the id of the last message that was summed up. Prompts believe it, so an External worker
// may not write it.
const SummaryActivity = "conversation-summary"

// admit returns ev as the worker may say it (docs/protocol.md, 2.2): a worker speaks as the assistant, and Baton's own events
// are not for it to write.
func (r *Run) admit(ev agui.Event) (agui.Event, error) {
	if r.external {
		ev = ev.WithCommon(disowned(ev.Common()))
	}
	switch e := ev.(type) {
	case agui.TextMessageStart:
		e.Role = r.voice(e.Role)
		return e, nil
	case agui.Custom:
		if isReserved(e.Name) {
			return nil, illegal("The CUSTOM event %q is Baton's own", e.Name)
		}
	case agui.ActivitySnapshot:
		return ev, r.admitActivity(e.ActivityType)
	case agui.ActivityDelta:
		return ev, r.admitActivity(e.ActivityType)
	}
	return ev, nil
}

// disowned is b without what would say that another agent speaks, and without what Baton itself keeps in metadata.
func disowned(b agui.Base) agui.Base {
	b.Agent = ""
	var members map[string]json.RawMessage
	if b.Metadata == nil || json.Unmarshal(b.Metadata, &members) != nil {
		return b
	}
	for name := range members {
		if isOurs(name) {
			delete(members, name)
			b.Metadata = nil
		}
	}
	if b.Metadata == nil && len(members) > 0 {
		b.Metadata, _ = json.Marshal(members) // it was JSON
	}
	return b
}

// isOurs reports whether Baton itself keeps a member of that name in metadata, or Go reads it as one of those, whatever its case.
func isOurs(name string) bool {
	return slices.ContainsFunc([]string{"agent", "stage", "workerAgentOutput", "toolAgentOutput"}, func(our string) bool {
		return strings.EqualFold(name, our)
	})
}

// voice is the role under which a text that the worker wants to say as role is stored.
func (r *Run) voice(role agui.Role) agui.Role {
	switch {
	case role == agui.RoleUser, role == agui.RoleDeveloper, role == agui.RoleSystem && r.external:
		return agui.RoleAssistant
	}
	return role
}

func (r *Run) admitActivity(kind string) error {
	if r.external && kind == SummaryActivity {
		return illegal("The activity %q is Baton's own", kind)
	}
	return nil
}

// isReserved reports whether a CUSTOM event of that name is written by Baton alone.
func isReserved(name string) bool {
	switch name {
	case ProgressEvent, RetractedEvent, agui.ModelCallEvent, "log-reset", "context-compacted", "guard", "budget":
		return true
	}
	return false
}

func illegal(format string, args ...any) error {
	return &Error{Code: "illegal_event", Message: fmt.Sprintf(format, args...)}
}
