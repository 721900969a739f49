// Package declared makes plugins from the declarations in a YAML file: agents, MCP servers, programs with tools and workflows, in the
// sections agents, mcp, tools and workflows, and reads the limits in providers, prices and budgets. Other sections are the server's settings and are ignored here.
//
// All errors are reported together, each with its line and column. A value can contain environment variables as ${NAME};
// errors show it as it is written.
package declared

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
)

// Config is the environment of a file. Zero fields mean the given defaults.
type Config struct {
	Offered []plugins.Plugin                 // plugins that exist without the file; it can use their names, but not redefine them
	Getenv  func(name string) (string, bool) // default os.LookupEnv, which expressions always use
	Makers  Makers                           // for the kinds of plugins that the program supports

	Database string // the SQLite file, which no context directory may contain; "" for none
}

// Set is the declarations of a file.
type Set struct {
	declared map[string]any // by path, such as agents.researcher
	plugins  map[string]plugins.Plugin
	origins  map[string]host.Origin
	order    []string // paths in the order of the file
	prices   Prices
	budgets  []Budget
}

// Load reads a file. Declarations that are unchanged since before, which can be nil, keep their plugins, so that a server
// that replaces one set by the other does not restart them. Load opens nothing and starts no program. Its error is an
// Errors.
func Load(name string, cfg Config, before *Set) (*Set, error) {
	s, r := load(name, cfg, before, false)
	if len(r.errs) == 0 {
		return s, nil
	}
	errs := r.errs
	if len(r.variables) > 0 {
		_, written := load(name, cfg, nil, true)
		errs = r.written(written.errs)
	}
	errs.sort()
	return nil, errs
}

// load reads a file. With asWritten, its variables stand for themselves.
func load(name string, cfg Config, before *Set, asWritten bool) (*Set, *reader) {
	r := &reader{file: name, getenv: cfg.Getenv, at: map[string]*yaml.Node{}, asWritten: asWritten, left: maxNodes}
	if r.getenv == nil {
		r.getenv = os.LookupEnv
	}
	var f file
	if root := r.open(); root != nil {
		r.sections(root, &f)
	}
	c := newChecker(r, &f, cfg.Offered)
	c.database = cfg.Database
	c.check()
	if len(r.errs) > 0 {
		return nil, r
	}
	s := &Set{declared: map[string]any{}, plugins: map[string]plugins.Plugin{}, origins: map[string]host.Origin{}}
	s.build(c, cfg.Makers, before)
	if len(r.errs) > 0 || asWritten {
		return nil, r
	}
	s.limit(&f, cfg.Makers)
	if f.Prices != nil {
		s.prices = *f.Prices
	}
	for _, name := range inOrder(r, "budgets", f.Budgets) {
		s.budgets = append(s.budgets, *f.Budgets[name])
	}
	return s, r
}

// limit sets the providers' limits, which are not part of their agents.
func (s *Set) limit(f *file, m Makers) {
	limits := make(map[string]Provider)
	for name, p := range f.Providers {
		limits[name] = *p
		s.declared["providers."+name] = *p
	}
	if m.Providers != nil {
		m.Providers(limits)
	}
}

// sections reads the declarations and skips other sections.
func (r *reader) sections(root *yaml.Node, f *file) {
	v := reflect.ValueOf(f).Elem()
	if root.Tag == "!!null" {
		return
	}
	r.pairs("", root, func(name, at string, val *yaml.Node) {
		for _, section := range shapeOf(v.Type()) {
			if section.name == name {
				r.read(at, val, v.FieldByIndex(section.index))
			}
		}
	})
}

// build makes the new and changed plugins.
func (s *Set) build(c *checker, m Makers, before *Set) {
	add := func(path string, declaration any, build func() (plugins.Plugin, error)) {
		p := before.same(path, declaration)
		if p == nil {
			var err error
			if p, err = build(); err != nil {
				c.r.errorf(path, "%s", err)
				return
			}
		}
		s.declared[path], s.plugins[path], s.origins[path] = declaration, p, c.r.origin(path, declaration)
		s.order = append(s.order, path)
	}
	for _, name := range inOrder(c.r, "mcp", c.f.MCP) {
		d := c.f.MCP[name]
		add("mcp."+name, *d, func() (plugins.Plugin, error) { return m.server(d) })
	}
	for _, name := range inOrder(c.r, "tools", c.f.Tools) {
		d := c.f.Tools[name]
		add("tools."+name, *d, func() (plugins.Plugin, error) { return m.tools(d) })
	}
	for _, name := range inOrder(c.r, "agents", c.f.Agents) {
		d := c.f.Agents[name]
		add("agents."+name, *d, func() (plugins.Plugin, error) { return m.agent(d) })
	}
	for _, name := range inOrder(c.r, "workflows", c.f.Workflows) {
		w := c.workflows[name]
		add("workflows."+name, w, func() (plugins.Plugin, error) { return w, nil })
	}
}

// same returns the plugin of an unchanged declaration, or nil.
func (s *Set) same(path string, declaration any) plugins.Plugin {
	if s == nil || !reflect.DeepEqual(s.declared[path], declaration) {
		return nil
	}
	return s.plugins[path]
}

// Plugins returns the declared plugins, those with tools first. A nil Set has none.
func (s *Set) Plugins() []plugins.Plugin {
	if s == nil {
		return nil
	}
	list := make([]plugins.Plugin, len(s.order))
	for i, path := range s.order {
		list[i] = s.plugins[path]
	}
	return list
}

// Spending returns the prices and the budgets, in the order of the file. A nil Set has none.
func (s *Set) Spending() (Prices, []Budget) {
	if s == nil {
		return Prices{}, nil
	}
	return s.prices, s.budgets
}

// From returns Plugins with their origins.
func (s *Set) From() []plugins.Plugin {
	list := s.Plugins()
	for i, p := range list {
		list[i] = host.From{Plugin: p, Origin: s.origins[s.order[i]]}
	}
	return list
}

// Changes are the paths, such as agents.researcher, that differ between two sets. Each list is sorted.
type Changes struct{ Added, Changed, Removed []string }

// Since returns the changes since before. Both sets can be nil.
func (s *Set) Since(before *Set) (c Changes) {
	now, then := s.all(), before.all()
	for _, path := range slices.Sorted(maps.Keys(now)) {
		switch old, ok := then[path]; {
		case !ok:
			c.Added = append(c.Added, path)
		case !reflect.DeepEqual(old, now[path]):
			c.Changed = append(c.Changed, path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(then)) {
		if _, ok := now[path]; !ok {
			c.Removed = append(c.Removed, path)
		}
	}
	return c
}

func (s *Set) all() map[string]any {
	if s == nil {
		return nil
	}
	return s.declared
}

// String lists the paths.
func (s *Set) String() string {
	if s == nil {
		return ""
	}
	return strings.Join(s.order, " ")
}
