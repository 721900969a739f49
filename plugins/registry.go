package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// Registry holds the plugins a server offers. The zero value is empty. Fill it with Add before it is
// shared; after that its methods may be called from several goroutines.
type Registry struct {
	agents    map[string]Agent
	tools     map[string]Tool
	workflows map[string]Workflow
	list      []Plugin // in the order they were added
	started   int      // how many of list Start has been through
}

var pluginName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// Add adds plugins. Agents and workflows share one set of names, tools have another. It stops at the
// first plugin it refuses and says why.
func (r *Registry) Add(list ...Plugin) error {
	for _, p := range list {
		if p == nil {
			return errors.New("plugin is nil")
		}
		if err := r.add(p, p.Info()); err != nil {
			return fmt.Errorf("plugin %q: %w", p.Info().Name, err)
		}
		r.list = append(r.list, p)
	}
	return nil
}

func (r *Registry) add(p Plugin, info Info) error {
	if !pluginName.MatchString(info.Name) {
		return fmt.Errorf("name must match %s", pluginName)
	}
	if info.Timeout < 0 {
		return errors.New("timeout is negative")
	}
	agent, isAgent := p.(Agent)
	tool, isTool := p.(Tool)
	workflow, isWorkflow := p.(Workflow)
	switch {
	case isAgent && isTool:
		return errors.New("is both an Agent and a Tool")
	case isAgent:
		return put(&r.agents, info.Name, agent, r.runs)
	case isWorkflow:
		if err := workflow.Validate(); err != nil {
			return err
		}
		return put(&r.workflows, info.Name, workflow, r.runs)
	case isTool:
		if err := checkParameters(info.Parameters); err != nil {
			return err
		}
		return put(&r.tools, info.Name, tool, func(name string) bool { return r.tools[name] != nil })
	}
	return fmt.Errorf("%T is neither an Agent, a Tool nor a Workflow", p)
}

func put[P Plugin](m *map[string]P, name string, p P, taken func(name string) bool) error {
	if taken(name) {
		return errors.New("the name is taken")
	}
	if *m == nil {
		*m = map[string]P{}
	}
	(*m)[name] = p
	return nil
}

// runs reports whether name is that of something a run can be of.
func (r *Registry) runs(name string) bool {
	_, isWorkflow := r.workflows[name]
	return isWorkflow || r.agents[name] != nil
}

func checkParameters(schema json.RawMessage) error {
	if schema == nil {
		return nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(schema, &object); err != nil || object == nil {
		return errors.New("parameters must be a JSON Schema that is an object")
	}
	return nil
}

// Validate checks what Add cannot know: that the agents and tools of each workflow are there.
func (r *Registry) Validate() error {
	for _, w := range r.Workflows() {
		for _, n := range w.Nodes {
			if _, ok := r.Agent(n.Agent); n.Agent != "" && !ok {
				return fmt.Errorf("workflow %q: node %q: no agent %q", w.Name, n.ID, n.Agent)
			}
			if _, ok := r.Tool(n.Tool); n.Tool != "" && !ok {
				return fmt.Errorf("workflow %q: node %q: no tool %q", w.Name, n.ID, n.Tool)
			}
		}
	}
	return nil
}

// Agent returns the agent of that name.
func (r *Registry) Agent(name string) (Agent, bool) {
	a, ok := r.agents[name]
	return a, ok
}

// Tool returns the tool of that name.
func (r *Registry) Tool(name string) (Tool, bool) {
	t, ok := r.tools[name]
	return t, ok
}

// Workflow returns the workflow of that name.
func (r *Registry) Workflow(name string) (Workflow, bool) {
	w, ok := r.workflows[name]
	return w, ok
}

// Agents returns the agents, sorted by name.
func (r *Registry) Agents() []Agent { return sorted(r.agents) }

// Tools returns the tools, sorted by name.
func (r *Registry) Tools() []Tool { return sorted(r.tools) }

// Workflows returns the workflows, sorted by name.
func (r *Registry) Workflows() []Workflow { return sorted(r.workflows) }

func sorted[P Plugin](m map[string]P) []P {
	list := make([]P, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[name])
	}
	return list
}

// Start starts the plugins that are Starters, in the order they were added, each after the one before
// it. It stops at the first error, and the caller calls Close all the same. It must be called once.
func (r *Registry) Start(ctx context.Context) error {
	for _, p := range r.list {
		if s, ok := p.(Starter); ok {
			if err := s.Start(ctx); err != nil {
				return fmt.Errorf("start plugin %q: %w", p.Info().Name, err)
			}
		}
		r.started++
	}
	return nil
}

// Close closes the plugins that are Closers, in the reverse order, except Starters that have not been
// started. It returns their errors joined. It must be called once, after the last run ended.
func (r *Registry) Close() error {
	var errs []error
	for i, p := range slices.Backward(r.list) {
		c, closes := p.(Closer)
		if _, starts := p.(Starter); !closes || starts && i >= r.started {
			continue
		}
		if err := c.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close plugin %q: %w", p.Info().Name, err))
		}
	}
	return errors.Join(errs...)
}

// Check asks the plugins that are Checkers, one after the other, and returns their errors joined.
func (r *Registry) Check(ctx context.Context) error {
	var errs []error
	for _, p := range r.list {
		c, ok := p.(Checker)
		if !ok {
			continue
		}
		if err := c.Check(ctx); err != nil {
			errs = append(errs, fmt.Errorf("plugin %q: %w", p.Info().Name, err))
		}
	}
	return errors.Join(errs...)
}
