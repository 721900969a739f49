package runtime

import (
	"context"

	"github.com/batonrun/baton/plugins/host"
)

// Plugins returns what this runtime offers now, in all projects together.
func (rt *Runtime) Plugins() *host.Registry { return rt.work.Plugins() }

// Offered returns what this runtime offers a caller now: what is for its project. Nobody is offered nothing.
func (rt *Runtime) Offered(c Caller) *host.Registry {
	if c.check() != nil {
		return new(host.Registry)
	}
	return rt.Plugins().For(c.project)
}

// Replace offers what reg holds from now on, and nothing else; Start must have returned. It compiles reg, which was
// validated and not started, and starts the plugins that are new in it. One that is in both registries, as the same value,
// is neither started again nor closed; nor is one that comes back while runs still have it. When Replace fails nothing has
// changed.
//
// No run is disturbed. One that is RUNNING goes on with the plugins that were offered when it was claimed, until it ends or
// waits; those that are offered no more are closed after the last such run. One that is QUEUED or WAITING meets what is
// offered when it is claimed, and fails with agent_gone if its agent is not there then. A workflow's run keeps the graph
// that it was started with for its whole life; the agents and tools that the graph names are looked up when it is claimed.
func (rt *Runtime) Replace(ctx context.Context, reg *host.Registry) error {
	rt.changing.Lock()
	defer rt.changing.Unlock()
	if rt.Stopping() {
		return ErrStopping
	}
	if err := rt.work.Replace(ctx, reg); err != nil {
		return err
	}
	rt.feeds.SetAgents(agentNames(reg))
	return nil
}

// agentNames tells the names of the agents that reg has for a project, sorted.
func agentNames(reg *host.Registry) func(project string) []string {
	return func(project string) []string {
		if project == "" { // nobody's
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
