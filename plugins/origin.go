package plugins

import "time"

// Origin is where a plugin comes from, for those who look after a server.
type Origin struct {
	Kind   string // OriginProgram or one of the others
	File   string // that declares it, empty for none
	Line   int    // in File, from 1
	Server string // the server of tools, by the name of its Toolbox
	URL    string // of what is asked elsewhere: its scheme and host, as the rest of it may be a secret

	// Of an agent that a model plays, where that is known.

	Provider string
	Model    string
	Tools    []string // that it may call: names, or patterns
}

// The kinds of an Origin.
const (
	OriginProgram = "program" // the program that Baton is a part of has it
	OriginBuiltIn = "built-in"
	OriginYAML    = "yaml"    // a settings file declares it
	OriginMCP     = "mcp"     // an MCP server has it
	OriginRemote  = "remote"  // it is behind an AG-UI endpoint
	OriginProcess = "process" // a program in any language is it, or has it
)

// From is a plugin with where it comes from, which it does not know itself. A Registry takes the plugin that is in it, and
// remembers the rest. A plugin that is in none comes from the program.
type From struct {
	Plugin
	Origin Origin
}

// Reporter is implemented by a plugin that depends on something that is elsewhere, and has seen how that is.
type Reporter interface {
	// Health is what was seen last, nil when nothing was. It is called often, from several goroutines, and asks nobody.
	Health() *Health
}

// Health is how something is that a plugin depends on.
type Health struct {
	OK     bool
	Since  time.Time // when it became so, as far as it was seen
	Detail string    // what is wrong, without secrets, for those who look after the server
}

// Health returns what a plugin of the registry, or for a tool of a Toolbox that, reports of what it depends on. It is nil for one
// that depends on nothing, or has seen nothing.
func (r *Registry) Health(p Plugin) *Health {
	if box, ok := r.toolbox(p); ok {
		p = box
	}
	if s, ok := p.(Reporter); ok {
		return s.Health()
	}
	return nil
}

// Origin returns where a plugin of the registry comes from, or for a tool of a Toolbox that.
func (r *Registry) Origin(p Plugin) Origin {
	if box, ok := r.toolbox(p); ok {
		p = box
	}
	if o, ok := r.origins[originKeyOf(p)]; ok {
		return o
	}
	return Origin{Kind: OriginProgram}
}

// toolbox is what a tool is in.
func (r *Registry) toolbox(p Plugin) (Toolbox, bool) {
	if t, ok := p.(Tool); ok {
		return r.Toolbox(t.Info().Name)
	}
	return nil, false
}

// originKey is a name in one of the two sets of names that a Registry has.
type originKey struct {
	runs bool // it is that of an agent or a workflow
	name string
}

func originKeyOf(p Plugin) originKey {
	_, isAgent := p.(Agent)
	_, isWorkflow := p.(Workflow)
	return originKey{isAgent || isWorkflow, p.Info().Name}
}
