package host

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
	"time"

	"github.com/batonrun/baton/plugins"
)

// Registry holds the plugins of a server. The zero value is empty. Call Add before sharing it; its other methods are safe
// for concurrent use. Only the tools of a Toolbox change; to serve other plugins, give the server another Registry.
type Registry struct {
	agents    map[string]plugins.Agent
	tools     map[string]plugins.Tool
	workflows map[string]plugins.Workflow
	boxes     map[string]plugins.Toolbox
	list      []*entry             // in the order they were added
	started   int                  // how many of list have been started
	begun     time.Time            // when Start was called
	limited   bool                 // some plugins are limited to projects
	origins   map[originKey]Origin // of plugins added with From
	unstarted bool                 // see KeepUnstarted
}

// entry is a plugin, shared by the registries that contain it.
type entry struct {
	plugins.Plugin

	mu      sync.Mutex // guards the fields below; locked while the plugin starts or closes
	users   int        // registries that have started and not closed it
	started bool       // the plugin is a Starter, and has been started and not closed
}

// Reserved is a name that agents and workflows cannot have: /api/v1/agui/events is the stream of all runs.
const Reserved = "events"

var pluginName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// Add adds plugins. Agents and workflows share one name space; tools and toolboxes share another, in which a toolbox owns
// all names that begin with its name and a dot. Add stops with an error at the first invalid plugin.
func (r *Registry) Add(list ...plugins.Plugin) error {
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

func (r *Registry) add(p plugins.Plugin, info plugins.Info) error {
	if !pluginName.MatchString(info.Name) {
		return fmt.Errorf("name must match %s", pluginName)
	}
	if info.Timeout < 0 {
		return errors.New("timeout is negative")
	}
	if info.Concurrency < 0 {
		return errors.New("concurrency is negative")
	}
	if err := info.Approver.Validate(); err != nil {
		return err
	}
	if slices.Contains(info.Projects, "") {
		return errors.New("a project has no name")
	}
	r.limited = r.limited || info.Projects != nil
	if err := info.Guards.Validate(); err != nil {
		return err
	}
	if v, ok := p.(interface{ Validate() error }); ok { // a workflow, or a function as an agent
		if err := v.Validate(); err != nil {
			return err
		}
	}
	agent, isAgent := p.(plugins.Agent)
	tool, isTool := p.(plugins.Tool)
	workflow, isWorkflow := p.(plugins.Workflow)
	box, isBox := p.(plugins.Toolbox)
	switch {
	case isAgent && isTool:
		return errors.New("is both an Agent and a Tool")
	case isBox && (isAgent || isTool):
		return errors.New("is a Toolbox, and an Agent or a Tool too")
	case (isAgent || isWorkflow) && info.Name == Reserved:
		return errors.New("the name is reserved for the address /api/v1/agui/" + Reserved)
	case isAgent:
		return claim(&r.agents, info.Name, agent, r.runs)
	case isWorkflow:
		return claim(&r.workflows, info.Name, workflow, r.runs)
	case isTool:
		if err := checkParameters(info.Parameters); err != nil {
			return err
		}
		return claim(&r.tools, info.Name, tool, r.calls)
	case isBox:
		if strings.Contains(info.Name, ".") {
			return errors.New("the name of a toolbox must not contain a dot")
		}
		return claim(&r.boxes, info.Name, box, r.boxed)
	}
	return fmt.Errorf("%T is neither an Agent, a Tool, a Toolbox nor a Workflow", p)
}

func claim[P plugins.Plugin](m *map[string]P, name string, p P, taken func(name string) bool) error {
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

// runs reports whether an agent or workflow has the name.
func (r *Registry) runs(name string) bool {
	_, isWorkflow := r.workflows[name]
	return isWorkflow || r.agents[name] != nil
}

// calls reports whether name is taken by a tool or toolbox, or belongs to a toolbox.
func (r *Registry) calls(name string) bool {
	_, boxed := r.Toolbox(name)
	return boxed || r.tools[name] != nil || r.boxes[name] != nil
}

// boxed reports whether name cannot be a toolbox's.
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
	var types any
	_ = json.Unmarshal(object["type"], &types) // the schema may have none
	list, _ := types.([]any)
	if types != nil && types != "object" && !slices.Contains(list, any("object")) {
		return fmt.Errorf("parameters must be the schema of an object, and its type is %s", object["type"])
	}
	return nil
}

// Validate checks that the agents and tools of all workflows and guards exist. Any name that belongs to a Toolbox counts as existing.
func (r *Registry) Validate() error {
	for _, a := range r.Agents() {
		info := a.Info()
		for _, g := range slices.Concat(info.Guards.Input, info.Guards.Tool, info.Guards.Output) {
			switch {
			case g.Agent == info.Name && g.Agent != "":
				return fmt.Errorf("agent %q: guards itself", info.Name)
			case g.Agent != "" && r.agents[g.Agent] == nil:
				return fmt.Errorf("agent %q: guard: no agent %q", info.Name, g.Agent)
			case g.Tool != "" && !r.calls(g.Tool):
				return fmt.Errorf("agent %q: guard: no tool %q", info.Name, g.Tool)
			}
		}
	}
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

// Toolbox returns the toolbox that owns a tool's name, whether or not the tool exists now.
func (r *Registry) Toolbox(tool string) (plugins.Toolbox, bool) {
	name, _, ok := strings.Cut(tool, ".")
	box := r.boxes[name]
	return box, ok && box != nil
}

// Agent returns the agent of that name.
func (r *Registry) Agent(name string) (plugins.Agent, bool) {
	a, ok := r.agents[name]
	return a, ok
}

// Tool returns the tool of that name.
func (r *Registry) Tool(name string) (plugins.Tool, bool) {
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
func (r *Registry) Workflow(name string) (plugins.Workflow, bool) {
	w, ok := r.workflows[name]
	return w, ok
}

// Agents returns the agents, sorted by name.
func (r *Registry) Agents() []plugins.Agent { return sorted(r.agents) }

// Tools returns the current tools, sorted by name.
func (r *Registry) Tools() []plugins.Tool {
	all := maps.Clone(r.tools)
	for _, box := range r.boxes {
		for _, t := range box.Tools() {
			name := t.Info().Name
			if home, _ := r.Toolbox(name); home != box || !pluginName.MatchString(name) {
				continue
			}
			if all == nil {
				all = map[string]plugins.Tool{}
			}
			all[name] = t
		}
	}
	return sorted(all)
}

// Toolboxes returns the toolboxes, sorted by name.
func (r *Registry) Toolboxes() []plugins.Toolbox { return sorted(r.boxes) }

// Workflows returns the workflows, sorted by name.
func (r *Registry) Workflows() []plugins.Workflow { return sorted(r.workflows) }

func sorted[P plugins.Plugin](m map[string]P) []P {
	list := make([]P, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[name])
	}
	return list
}

// Share reuses the entries of other for plugins that both registries contain as the same value: Start does not start
// them again, and only the last Close closes them. Call it before Start.
func (r *Registry) Share(other *Registry) {
	for i, e := range r.list {
		at := slices.IndexFunc(other.list, func(o *entry) bool { return same(e.Plugin, o.Plugin) })
		if at >= 0 {
			r.list[i] = other.list[at]
		}
	}
}

// same reports whether two plugins are the same value. Values that are not comparable never are.
func same(a, b plugins.Plugin) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// KeepUnstarted makes the registry serve lookups only: Start then starts no plugin, Check passes, and no plugin has a Health. Call it
// before sharing the registry.
func (r *Registry) KeepUnstarted() { r.unstarted = true }

// Start starts the plugins that are Starters in the order they were added. It stops at the first error; call Close in
// any case. Start must be called once.
func (r *Registry) Start(ctx context.Context) error {
	if !r.unstarted {
		r.begun = time.Now()
	}
	for _, e := range r.list {
		if err := e.start(ctx, !r.unstarted); err != nil {
			return fmt.Errorf("start plugin %q: %w", e.Info().Name, err)
		}
		r.started++
	}
	return nil
}

// patience is how long after Start runs wait for toolboxes that have not settled.
const patience = 10 * time.Second

// Await waits until the toolboxes with tools of the given names or patterns have settled, for at most ten seconds after Start.
func (r *Registry) Await(ctx context.Context, patterns ...string) {
	limit := time.NewTimer(time.Until(r.begun.Add(patience)))
	defer limit.Stop()
	for name, box := range r.boxes {
		if !slices.ContainsFunc(patterns, func(p string) bool { return mayMatch(p, name+".") }) {
			continue
		}
		select {
		case <-settled(box):
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Settle waits until it is known if the tool exists, longer than Await. It fails with ctx's cause.
func (r *Registry) Settle(ctx context.Context, tool string) error {
	box, ok := r.Toolbox(tool)
	if !ok {
		return nil
	}
	select {
	case <-settled(box):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Settled reports whether it is known if the tool exists.
func (r *Registry) Settled(tool string) bool {
	box, ok := r.Toolbox(tool)
	if !ok || !pluginName.MatchString(tool) {
		return true
	}
	select {
	case <-settled(box):
		return true
	default:
		return false
	}
}

// settled returns the channel of a Settler, and a closed one for other toolboxes.
func settled(box plugins.Toolbox) <-chan struct{} {
	if s, ok := box.(plugins.Settler); ok {
		return s.Settled()
	}
	return always
}

var always = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// mayMatch reports whether a pattern can match names with a prefix.
func mayMatch(pattern, prefix string) bool {
	if at := strings.IndexAny(pattern, `*?[\`); at >= 0 {
		pattern = pattern[:at]
		return strings.HasPrefix(pattern, prefix) || strings.HasPrefix(prefix, pattern)
	}
	return strings.HasPrefix(pattern, prefix)
}

// start counts a registry as a user of the plugin, and starts the plugin if the registry needs it started.
func (e *entry) start(ctx context.Context, needed bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s, ok := e.Plugin.(plugins.Starter); ok && needed && !e.started {
		if err := s.Start(ctx); err != nil {
			return err
		}
		e.started = true
	}
	e.users++
	return nil
}

// Close closes the plugins that are Closers in reverse order, except Starters that were not started and plugins still
// used by another registry, which end by force once ctx is done. It returns the joined errors. It must be called once, after the last run
// ended.
func (r *Registry) Close(ctx context.Context) error {
	var errs []error
	for i, e := range slices.Backward(r.list) {
		if err := e.close(ctx, i < r.started); err != nil {
			errs = append(errs, fmt.Errorf("close plugin %q: %w", e.Info().Name, err))
		}
	}
	return errors.Join(errs...)
}

func (e *entry) close(ctx context.Context, used bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if used {
		e.users--
	}
	c, closes := e.Plugin.(plugins.Closer)
	if _, starts := e.Plugin.(plugins.Starter); !closes || e.users > 0 || starts && !e.started {
		return nil
	}
	e.started = false
	return c.Close(ctx)
}

// Check calls the plugins that are Checkers in turn and returns the joined errors.
func (r *Registry) Check(ctx context.Context) error {
	if r.unstarted {
		return nil
	}
	var errs []error
	for _, e := range r.list {
		c, ok := e.Plugin.(plugins.Checker)
		if !ok {
			continue
		}
		if err := c.Check(ctx); err != nil {
			errs = append(errs, fmt.Errorf("plugin %q: %w", e.Info().Name, err))
		}
	}
	return errors.Join(errs...)
}
