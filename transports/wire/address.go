package wire

import "github.com/batonrun/baton/plugins/host"

// Address makes r a request for the agent or workflow called name, from the request's path. It fails when r names another.
// StartRun checks whether it exists.
func (r *RunRequest) Address(reg *host.Registry, name string) error {
	if other := r.Agent + r.WorkflowID; other != "" && other != name {
		return Refuse(codeRequest, "The path is that of %q, but the request names %q; leave agent and workflowId out", name, other)
	}
	r.Agent, r.WorkflowID = name, ""
	if _, ok := reg.Workflow(name); ok {
		r.Agent, r.WorkflowID = "", name
	}
	return nil
}
