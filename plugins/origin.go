package plugins

import "time"

// Origin describes where a plugin comes from, for operators.
type Origin struct {
	Kind   string // OriginProgram or one of the others
	File   string // the declaring file, empty if there is none
	Line   int    // in File, from 1
	Server string // the MCP server of a tool, by the name of its Toolbox
	URL    string // scheme and host of a remote service; the rest can contain secrets

	// For an agent played by a model, as far as known.

	Provider string
	Model    string
	Tools    []string // names or patterns of the tools it can call
}

// The kinds of an Origin.
const (
	OriginProgram = "program" // part of the program that embeds Baton
	OriginBuiltIn = "built-in"
	OriginYAML    = "yaml"    // declared in a settings file
	OriginMCP     = "mcp"     // a tool of an MCP server
	OriginRemote  = "remote"  // behind an AG-UI endpoint
	OriginProcess = "process" // an external program, or a tool of one
)

// From attaches an Origin to a plugin. A Registry adds the plugin inside it and records the origin. Plugins added without
// From come from the program.
type From struct {
	Plugin
	Origin Origin
}

// Reporter is implemented by a plugin that depends on an external service and observes its health.
type Reporter interface {
	// Health returns the last observation, nil if there is none. It is called often, from several goroutines, and must
	// not contact the service.
	Health() *Health
}

// Health is the state of a plugin's external dependency.
type Health struct {
	OK     bool
	Since  time.Time // of the change to this state, as observed
	Detail string    // the problem without secrets, for operators
}

// Health returns the health reported by a plugin of the registry, or by the Toolbox of a tool. It is nil without a
// dependency or an observation.
func (r *Registry) Health(p Plugin) *Health {
	if box, ok := r.toolbox(p); ok {
		p = box
	}
	if s, ok := p.(Reporter); ok {
		return s.Health()
	}
	return nil
}

// Origin returns the origin of a plugin of the registry, or of the Toolbox of a tool.
func (r *Registry) Origin(p Plugin) Origin {
	if box, ok := r.toolbox(p); ok {
		p = box
	}
	if o, ok := r.origins[originKeyOf(p)]; ok {
		return o
	}
	return Origin{Kind: OriginProgram}
}

// toolbox returns the Toolbox of a tool.
func (r *Registry) toolbox(p Plugin) (Toolbox, bool) {
	if t, ok := p.(Tool); ok {
		return r.Toolbox(t.Info().Name)
	}
	return nil, false
}

// originKey is a name in one of the Registry's two name spaces.
type originKey struct {
	runs bool // an agent or a workflow
	name string
}

func originKeyOf(p Plugin) originKey {
	_, isAgent := p.(Agent)
	_, isWorkflow := p.(Workflow)
	return originKey{isAgent || isWorkflow, p.Info().Name}
}
