package runtime

import (
	"github.com/batonrun/baton/runtime/monitor"
)

// Types that show the runs of a project to viewers, as package monitor defines them.
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

// ErrLagged means that a monitor fell so far behind that it lost notices.
var ErrLagged = monitor.ErrLagged

// Monitor opens a monitor of the caller's project. RoleUser sees its own runs, every higher role sees the project's,
// and the zero Caller sees nothing.
func (rt *Runtime) Monitor(c Caller, q MonitorQuery) *Monitor {
	return rt.feeds.Open(c.project, c.user, c.role >= RoleViewer, q)
}

// Watch signals changes in the caller's lists of runs, threads and questions. It covers the same runs as Monitor.
func (rt *Runtime) Watch(c Caller) *Watch {
	return rt.feeds.Changes.Watch(c.project, c.user, c.role >= RoleViewer)
}
