package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Registry holds the plugins a server offers. The zero value is empty. Fill it with Add before it is
// shared; after that its methods may be called from several goroutines, and only the tools of a Toolbox come
// and go. A server that is to offer other plugins is given another Registry.
type Registry struct {
	agents    map[string]Agent
	tools     map[string]Tool
	workflows map[string]Workflow
	boxes     map[string]Toolbox
	list      []*entry             // in the order they were added
	started   int                  // how many of list Start has been through
	limited   bool                 // some are not for every project
	origins   map[originKey]Origin // of those that were added with one
}

// entry is a plugin in the registries that it is in.
type entry struct {
	Plugin

	mu    sync.Mutex // guards users, and is held while the plugin starts or closes
	users int        // registries that have started it and not closed it
}

var pluginName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// Add adds plugins. Agents and workflows share one set of names, tools and toolboxes have another; what begins
// with the name of a toolbox and a dot is that toolbox's. It stops at the first plugin it refuses and says why.
func (r *Registry) Add(list ...Plugin) error {
	for _, p := range list {
		from, known := p.(From)
		if known {
			p = from.Plugin
		}
		if p == nil {
			return errors.New("plugin is nil")
		}
		if err := r.add(p, p.Info()); err != nil {
			return fmt.Errorf("plugin %q: %w", p.Info().Name, err)
		}
		if known {
			put(&r.origins, originKeyOf(p), from.Origin)
		}
		r.list = append(r.list, &entry{Plugin: p})
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
	if info.Concurrency < 0 {
		return errors.New("concurrency is negative")
	}
	if slices.Contains(info.Projects, "") {
		return errors.New("a project has no name")
	}
	r.limited = r.limited || info.Projects != nil
	agent, isAgent := p.(Agent)
	tool, isTool := p.(Tool)
	workflow, isWorkflow := p.(Workflow)
	box, isBox := p.(Toolbox)
	switch {
	case isAgent && isTool:
		return errors.New("is both an Agent and a Tool")
	case isBox && (isAgent || isTool):
		return errors.New("is a Toolbox, and an Agent or a Tool too")
	case (isAgent || isWorkflow) && info.Name == "events":
		return errors.New("the name is that of an address, /api/v1/agui/events")
	case isAgent:
		return claim(&r.agents, info.Name, agent, r.runs)
	case isWorkflow:
		if err := workflow.Validate(); err != nil {
			return err
		}
		return claim(&r.workflows, info.Name, workflow, r.runs)
	case isTool:
		if err := checkParameters(info.Parameters); err != nil {
			return err
		}
		return claim(&r.tools, info.Name, tool, r.calls)
	case isBox:
		if strings.Contains(info.Name, ".") {
			return errors.New("the name of a toolbox holds no dot")
		}
		return claim(&r.boxes, info.Name, box, r.boxed)
	}
	return fmt.Errorf("%T is neither an Agent, a Tool, a Toolbox nor a Workflow", p)
}

func claim[P Plugin](m *map[string]P, name string, p P, taken func(name string) bool) error {
	if taken(name) {
		return errors.New("the name is taken")
	}
	put(m, name, p)
	return nil
}

func put[K comparable, V any](m *map[K]V, key K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = v
}

// runs reports whether name is that of something a run can be of.
func (r *Registry) runs(name string) bool {
	_, isWorkflow := r.workflows[name]
	return isWorkflow || r.agents[name] != nil
}

// calls reports whether name is that of something that is called, or may come to be a toolbox's.
func (r *Registry) calls(name string) bool {
	_, boxed := r.Toolbox(name)
	return boxed || r.tools[name] != nil || r.boxes[name] != nil
}

// boxed reports whether name is taken for a toolbox.
func (r *Registry) boxed(name string) bool {
	for tool := range r.tools {
		if strings.HasPrefix(tool, name+".") {
			return true
		}
	}
	return r.calls(name)
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

// Validate checks what Add cannot know: that the agents and tools of each workflow are there. A tool that a
// Toolbox may come to have counts as there.
func (r *Registry) Validate() error {
	for _, w := range r.Workflows() {
		for _, n := range w.Nodes {
			if n.Agent != "" && r.agents[n.Agent] == nil {
				return fmt.Errorf("workflow %q: node %q: no agent %q", w.Name, n.ID, n.Agent)
			}
			if n.Tool != "" && !r.calls(n.Tool) {
				return fmt.Errorf("workflow %q: node %q: no tool %q", w.Name, n.ID, n.Tool)
			}
		}
	}
	return nil
}

// Toolbox returns the toolbox that a tool of that name is in, or may come to be in.
func (r *Registry) Toolbox(tool string) (Toolbox, bool) {
	name, _, ok := strings.Cut(tool, ".")
	box := r.boxes[name]
	return box, ok && box != nil
}

// Agent returns the agent of that name.
func (r *Registry) Agent(name string) (Agent, bool) {
	a, ok := r.agents[name]
	return a, ok
}

// Tool returns the tool of that name.
func (r *Registry) Tool(name string) (Tool, bool) {
	if t, ok := r.tools[name]; ok {
		return t, true
	}
	if box, ok := r.Toolbox(name); ok && pluginName.MatchString(name) {
		for _, t := range box.Tools() {
			if t.Info().Name == name {
				return t, true
			}
		}
	}
	return nil, false
}

// Workflow returns the workflow of that name.
func (r *Registry) Workflow(name string) (Workflow, bool) {
	w, ok := r.workflows[name]
	return w, ok
}

// Agents returns the agents, sorted by name.
func (r *Registry) Agents() []Agent { return sorted(r.agents) }

// Tools returns the tools that there are now, sorted by name.
func (r *Registry) Tools() []Tool {
	all := maps.Clone(r.tools)
	for _, box := range r.boxes {
		for _, t := range box.Tools() {
			name := t.Info().Name
			if home, _ := r.Toolbox(name); home != box || !pluginName.MatchString(name) {
				continue
			}
			if all == nil {
				all = map[string]Tool{}
			}
			all[name] = t
		}
	}
	return sorted(all)
}

// Toolboxes returns the toolboxes, sorted by name.
func (r *Registry) Toolboxes() []Toolbox { return sorted(r.boxes) }

// Workflows returns the workflows, sorted by name.
func (r *Registry) Workflows() []Workflow { return sorted(r.workflows) }

func sorted[P Plugin](m map[string]P) []P {
	list := make([]P, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[name])
	}
	return list
}

// Share takes over the plugins that are in other, too, which must be the same values: Start does not start them
// again, and only the last Close closes them. It is called before Start.
func (r *Registry) Share(other *Registry) {
	for i, e := range r.list {
		at := slices.IndexFunc(other.list, func(o *entry) bool { return same(e.Plugin, o.Plugin) })
		if at >= 0 {
			r.list[i] = other.list[at]
		}
	}
}

// same reports whether two plugins are one value. What cannot be compared is never the same.
func same(a, b Plugin) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// Start starts the plugins that are Starters, in the order they were added, each after the one before
// it. It stops at the first error, and the caller calls Close all the same. It must be called once.
func (r *Registry) Start(ctx context.Context) error {
	for _, e := range r.list {
		if err := e.start(ctx); err != nil {
			return fmt.Errorf("start plugin %q: %w", e.Info().Name, err)
		}
		r.started++
	}
	return nil
}

func (e *entry) start(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s, ok := e.Plugin.(Starter); ok && e.users == 0 {
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	e.users++
	return nil
}

// Close closes the plugins that are Closers, in the reverse order, except Starters that have not been
// started and what another registry shares and has not closed. It returns their errors joined. It must be called
// once, after the last run ended.
func (r *Registry) Close() error {
	var errs []error
	for i, e := range slices.Backward(r.list) {
		if err := e.close(i < r.started); err != nil {
			errs = append(errs, fmt.Errorf("close plugin %q: %w", e.Info().Name, err))
		}
	}
	return errors.Join(errs...)
}

func (e *entry) close(started bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if started {
		e.users--
	}
	c, closes := e.Plugin.(Closer)
	if _, starts := e.Plugin.(Starter); !closes || e.users > 0 || starts && !started {
		return nil
	}
	return c.Close()
}

// Check asks the plugins that are Checkers, one after the other, and returns their errors joined.
func (r *Registry) Check(ctx context.Context) error {
	var errs []error
	for _, e := range r.list {
		c, ok := e.Plugin.(Checker)
		if !ok {
			continue
		}
		if err := c.Check(ctx); err != nil {
			errs = append(errs, fmt.Errorf("plugin %q: %w", e.Info().Name, err))
		}
	}
	return errors.Join(errs...)
}
