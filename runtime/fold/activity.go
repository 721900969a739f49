package fold

import (
	"fmt"

	"github.com/batonrun/baton/runtime/agui"
)

// activity creates an activity message, or replaces the content of one if the event says so.
func (f *Fold) activity(e agui.ActivitySnapshot) []string {
	m := f.list.byID[e.MessageID]
	replace := e.Replace == nil || *e.Replace
	switch {
	case m == nil:
		m = f.list.add(agui.Message{ID: e.MessageID, Role: agui.RoleActivity})
	case !replace && m.Role != agui.RoleActivity:
		return nil
	case !replace:
		f.list.annotate(m, &m.Metadata, e.Metadata)
		return m.changed()
	case m.Role != agui.RoleActivity:
		f.list.forget(m)
		m.Message = agui.Message{ID: e.MessageID, Role: agui.RoleActivity}
		f.list.count(m, Size(&m.Message))
	}
	f.list.count(m, len(e.Content)-len(m.Parts))
	m.ActivityType, m.Parts, m.SubagentRunID = e.ActivityType, e.Content, e.SubagentRunID
	f.list.annotate(m, &m.Metadata, e.Metadata)
	return m.changed()
}

// activityDelta patches an activity message's content.
func (f *Fold) activityDelta(e agui.ActivityDelta) ([]string, error) {
	m := f.list.byID[e.MessageID]
	if m == nil || m.Role != agui.RoleActivity {
		return nil, fmt.Errorf("activity delta: there is no activity %q", e.MessageID)
	}
	next, err := patched(m.Parts, e.Patch)
	if err != nil {
		return nil, fmt.Errorf("activity delta: %w", err)
	}
	if next[0] != '{' {
		return nil, fmt.Errorf("activity delta: the content of %q would not be an object", e.MessageID)
	}
	if len(next) > maxAmended && len(next)-len(m.Parts) > len(e.Patch) { // copies make it longer, not the patch
		return nil, fmt.Errorf("activity delta: copies make the content of %q longer than %d bytes: send a snapshot", e.MessageID, maxAmended)
	}
	f.list.count(m, len(next)-len(m.Parts))
	m.Parts, m.ActivityType = next, e.ActivityType
	f.list.annotate(m, &m.Metadata, e.Metadata)
	return []string{m.ID}, nil
}
