package runtime

import (
	"context"

	"github.com/batonrun/baton/plugins/host"
)

// Plugins returns the plugins of this runtime now, over all projects.
func (rt *Runtime) Plugins() *host.Registry { return rt.work.Offers.Plugins() }

// Offered returns the plugins that this runtime offers now for the caller's project. Only lookups are allowed. The zero Caller gets none.
func (rt *Runtime) Offered(c Caller) *host.Registry {
	if c.check() != nil {
		return new(host.Registry)
	}
	return rt.work.Offers.Plugins().For(c.project)
}

// Unknown refuses a request for a plugin that is not offered. It does not name the server that has it, which only admins may see.
func (rt *Runtime) Unknown(c Caller, code, kind, name string) error {
	if err := c.check(); err != nil {
		return err
	}
	if rt.work.Fleet.IsOffered(c.project, name) {
		return refuse(KindNotFound, code, "This server does not know the %s %q, but another one does: load the same file everywhere", kind, name)
	}
	return refuse(KindNotFound, code, "There is no %s %q", kind, name)
}

// Replace makes reg the only set of offered plugins; Start must have returned. It compiles reg, which was validated
// and not started, and starts the plugins that are new in it. A plugin that is in both registries, as the same value,
// is neither started again nor closed; nor is a plugin that comes back while runs still use it. If Replace fails,
// nothing has changed.
//
// No run is disturbed. A RUNNING run keeps the plugins that were offered at its claim, until it ends or waits;
// plugins that are no longer offered are closed after the last such run. A QUEUED or WAITING run uses the plugins
// that are offered when it is claimed, and fails with agent_gone if its agent is not among them. A workflow's run
// keeps the graph that it was started with for its whole life; the agents and tools that the graph names are looked
// up at each claim.
func (rt *Runtime) Replace(ctx context.Context, reg *host.Registry) error {
	rt.changing.Lock()
	defer rt.changing.Unlock()
	if rt.Member.Stopping() {
		return ErrStopping
	}
	return rt.work.Offers.Replace(ctx, reg)
}

// agentNames returns a function that lists the names of the agents that reg offers a project, sorted.
func agentNames(reg *host.Registry) func(project string) []string {
	return func(project string) []string {
		if project == "" { // the zero Caller's project
			return nil
		}
		agents := reg.For(project).Agents()
		names := make([]string, len(agents))
		for i, a := range agents {
			names[i] = a.Info().Name
		}
		return names
	}
}
