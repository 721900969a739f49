package runtime

import (
	"github.com/batonrun/baton/runtime/monitor"
)

// What shows the runs of a project to people who watch, as package monitor defines it.
//
//nolint:revive // each is documented there
type (
	Monitor      = monitor.Monitor
	MonitorQuery = monitor.Query
	View         = monitor.View
	Notice       = monitor.Notice
	AgentStatus  = monitor.AgentStatus
	Watch        = monitor.Watch
)

// The views of a project: see [monitor.View].
const (
	EventsView = monitor.EventsView
	AGUIView   = monitor.AGUIView
)

// ErrLagged means that a monitor has fallen so far behind that notices were lost to it.
var ErrLagged = monitor.ErrLagged

// Monitor opens a monitor of the caller's project. RoleUser sees its own runs, every other role the project's, and nobody nothing.
func (rt *Runtime) Monitor(c Caller, q MonitorQuery) *Monitor {
	return rt.feeds.Open(c.project, c.user, c.role >= RoleViewer, q)
}

// Watch is told when there is something else to see in the caller's lists of runs, threads and what waits: it shows what Monitor does.
func (rt *Runtime) Watch(c Caller) *Watch {
	return rt.feeds.Changes.Watch(c.project, c.user, c.role >= RoleViewer)
}
