package declared

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/batonrun/baton/config/document"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/graph"
)

// checker checks the declarations against each other.
type checker struct {
	r         *reader
	f         *file
	agents    map[string]bool            // declared and offered agents
	tools     map[string]bool            // declared and offered tools, except those of toolboxes
	arguments map[string]json.RawMessage // JSON Schemas of those tools' arguments
	outputs   map[string]json.RawMessage // JSON Schemas of the outputs of agents, and of those tools behind a colon
	boxes     map[string]bool            // offered toolboxes, and declared programs with tools
	taken     map[string]string
	workflows map[string]plugins.Workflow // compiled
	database  string                      // the SQLite file, "" for none
}

func newChecker(r *reader, f *file, offered []plugins.Plugin) *checker {
	c := &checker{
		r: r, f: f, agents: map[string]bool{}, tools: map[string]bool{}, arguments: map[string]json.RawMessage{}, outputs: map[string]json.RawMessage{}, boxes: map[string]bool{}, taken: map[string]string{},
		workflows: map[string]plugins.Workflow{},
	}
	for _, p := range offered {
		name := p.Info().Name
		switch p.(type) {
		case plugins.Agent:
			c.agents[name], c.taken[name], c.outputs[name] = true, "agent", p.Info().Output
		case plugins.Workflow:
			c.taken[name] = "workflow"
		case plugins.Toolbox:
			c.boxes[name] = true
		case plugins.Tool:
			c.tools[name], c.arguments[name], c.outputs[":"+name] = true, p.Info().Parameters, p.Info().Output
		}
	}
	for name, a := range f.Agents {
		if c.agents[name] = true; a.Output != nil {
			c.outputs[name] = a.Output.Schema
		}
	}
	return c
}

// properName matches valid plugin names.
var properName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

func (c *checker) check() {
	for _, n := range inOrder(c.r, "mcp", c.f.MCP) {
		c.f.MCP[n].Name = n
		c.server("mcp."+n, c.f.MCP[n])
	}
	for _, n := range inOrder(c.r, "tools", c.f.Tools) {
		c.f.Tools[n].Name = n
		c.program("tools."+n, c.f.Tools[n])
	}
	for _, n := range inOrder(c.r, "agents", c.f.Agents) {
		c.f.Agents[n].Name = n
		c.name("agents."+n, n)
		c.agent("agents."+n, c.f.Agents[n])
	}
	for _, n := range inOrder(c.r, "workflows", c.f.Workflows) {
		c.name("workflows."+n, n)
		c.workflow("workflows."+n, n, c.f.Workflows[n])
	}
	for _, n := range inOrder(c.r, "providers", c.f.Providers) {
		c.provider("providers."+n, n)
	}
	c.budgets()
}

// provider checks that an agent has the provider, or the base_url, with that name.
func (c *checker) provider(at, name string) {
	known := []string{"openai", "anthropic", "google", "ollama"}
	for _, a := range c.f.Agents {
		known = append(known, a.BaseURL)
		for _, f := range a.Fallback {
			known = append(known, f.BaseURL)
		}
	}
	if !slices.Contains(known, name) {
		c.r.errorf(at, "%q is no provider and no agent's base_url%s", name, document.Hint(name, known))
	}
}

// name checks the name of an agent or workflow.
func (c *checker) name(at, n string) {
	if !properName.MatchString(n) {
		c.r.errorf(at, "a name is 1 to 64 letters, digits, dots, dashes and underscores, and begins with a letter or digit")
	}
	if n == host.Reserved {
		c.r.errorf(at, "the name is reserved for the address /api/v1/agui/%s", n)
	}
	if what := c.taken[n]; what != "" {
		c.r.errorf(at, "%s %q already exists", what, n)
		return
	}
	kind, _, _ := strings.Cut(at, ".")
	c.taken[n] = map[string]string{"agents": "agent", "workflows": "workflow"}[kind]
}

// box checks the name of a server or a program with tools.
func (c *checker) box(at, what, name string) {
	switch {
	case !properName.MatchString(name) || strings.Contains(name, "."):
		c.r.errorf(at, "a %s's name is 1 to 64 letters, digits, dashes and underscores, and begins with a letter or digit", what)
	case c.tools[name] || c.boxes[name]:
		c.r.errorf(at, "a tool or a server with the name %q already exists", name)
	}
}

// program checks a program with tools, which are known once it has started.
func (c *checker) program(at string, p *Tools) {
	c.box(at, "program", p.Name)
	if c.f.MCP[p.Name] != nil {
		c.r.errorf(at, "a tool or a server with the name %q already exists", p.Name)
	}
	c.boxes[p.Name] = true
	if p.Command == nil && !c.r.wrong(at, at+".command") {
		c.r.errorf(at, "command is missing")
	}
	c.command(at, p.Command)
	c.projects(at, p.Projects)
	c.directory(at+".dir", p.Dir)
	c.callApprover(at+".approver", p.Approver)
}

func (c *checker) server(at string, s *Server) {
	c.box(at, "server", s.Name)
	c.oneOf(at, map[string]bool{"command": s.Command != nil, "url": s.URL != ""})
	c.command(at, s.Command)
	c.projects(at, s.Projects)
	c.only(at, "a server", "command", "env", "dir")
	c.directory(at+".dir", s.Dir)
	c.only(at, "a server", "url", "headers")
	c.url(at+".url", s.URL)
	if s.Allow != nil && len(s.Allow) == 0 {
		c.r.errorf(at+".allow", "name a tool, or omit the key to offer all")
	}
	c.callApprover(at+".approver", s.Approver)
	if s.Approver != nil && s.Approval == nil {
		c.r.errorf(at+".approver", "needs approval, the list of the tools that it is about")
	}
	for i, tool := range s.Approval {
		if s.Allow != nil && !overlaps(s.Allow, tool) {
			c.r.errorf(fmt.Sprintf("%s.approval[%d]", at, i), "%q is not in allow%s", tool, document.Hint(tool, s.Allow))
		}
	}
}

// callApprover checks who may approve calls.
func (c *checker) callApprover(at string, a *Approver) {
	c.approver(at, a)
	if a == nil || a.Message == "" {
		return
	}
	if err := graph.CheckMessage(string(a.Message)); err != nil {
		c.r.errorf(at+".message", "%s", err)
	}
}

// projects checks a projects list.
func (c *checker) projects(at string, projects []string) {
	if projects != nil && len(projects) == 0 {
		c.r.errorf(at+".projects", "name a project, or omit the key to offer it in all")
	}
	for i, p := range projects {
		if p == "" {
			c.r.errorf(fmt.Sprintf("%s.projects[%d]", at, i), "a project's name is empty")
		}
	}
}

func (c *checker) agent(at string, a *Agent) {
	c.oneOf(at, map[string]bool{"provider": a.Provider != "", "agui": a.AGUI != nil, "command": a.Command != nil})
	c.only(at, "an agent", "provider", "model", "base_url", "api_key", "api", "api_version", "compat", "system", "tools", "fallback", "history", "context_tokens", "result_tokens", "output", "context",
		"limits.max_steps", "limits.max_tokens")
	c.only(at, "an agent", "command", "env", "dir", "start_timeout")
	c.command(at, a.Command)
	c.projects(at, a.Projects)
	c.directory(at+".dir", a.Dir)
	c.callApprover(at+".approval", a.Approval.Who())
	for i, dir := range a.Context {
		c.context(fmt.Sprintf("%s.context[%d]", at, i), dir)
	}
	if !plugins.ValidStop(a.Parameters.Stop) {
		c.r.errorf(at+".parameters.stop", "want up to 16 texts of 1 to 200 bytes")
	}
	c.openai(at, a.Provider, a.API, a.APIVersion, a.Compat)
	c.count(at, a)
	for i, f := range a.Fallback {
		at := fmt.Sprintf("%s.fallback[%d]", at, i)
		if f.Provider == "" && !c.r.wrong(at, at+".provider") {
			c.r.errorf(at, "provider is missing")
		}
		c.url(at+".base_url", f.BaseURL)
		c.openai(at, f.Provider, f.API, f.APIVersion, f.Compat)
	}
	c.url(at+".base_url", a.BaseURL)
	if a.AGUI != nil {
		if a.AGUI.URL == "" && !c.r.wrong(at+".agui", at+".agui.url") {
			c.r.errorf(at+".agui", "url is missing")
		}
		c.url(at+".agui.url", a.AGUI.URL)
		c.url(at+".agui.stop", a.AGUI.Stop)
		if a.AGUI.Stop != "" && !strings.Contains(a.AGUI.Stop, "{threadId}") {
			c.r.errorf(at+".agui.stop", "want {threadId} in the URL")
		}
	}
	c.guards(at+".guard", a)
	for i, pattern := range a.Tools {
		c.pattern(fmt.Sprintf("%s.tools[%d]", at, i), a.Name, pattern)
	}
}

// openai refuses the keys of servers with OpenAI's protocol for other providers.
func (c *checker) openai(at, provider, api, version string, compat *Compat) {
	for key, there := range map[string]bool{"api": api != "", "api_version": version != "", "compat.server": compat != nil && compat.Server != ""} {
		if there && provider != "" && provider != "openai" {
			c.r.errorf(at+"."+key, "is for provider openai")
		}
	}
}

// mostTools is the number of tools that OpenAI's models take.
const mostTools = 128

// count checks that an agent's model takes all tools that are known.
func (c *checker) count(at string, a *Agent) {
	most := 0
	surrounding, _ := c.r.getenv("OPENAI_BASE_URL")
	base := cmp.Or(a.BaseURL, surrounding, "https://api.openai.com")
	if u, err := url.Parse(base); err == nil && a.Provider == "openai" && u.Hostname() == "api.openai.com" {
		most = mostTools
	}
	if a.Compat != nil && a.Compat.Tools > 0 {
		most = a.Compat.Tools
	}
	if most == 0 {
		return
	}
	known := slices.DeleteFunc(c.callable(a.Name), func(n string) bool { return strings.HasSuffix(n, ".*") })
	for server, s := range c.f.MCP {
		for _, tool := range s.Allow {
			if !strings.ContainsAny(tool, "*?[") {
				known = append(known, server+"."+tool)
			}
		}
	}
	if widest, matches, all := host.Widest(a.Tools, known); all > most {
		c.r.errorf(fmt.Sprintf("%s.tools[%d]", at, widest), "the model takes %d tools, and there are %d; %q matches %d of them: narrow it", most, all, a.Tools[widest], matches)
	}
}

// budgets checks the budgets, and the prices that they need.
func (c *checker) budgets() {
	currency := ""
	if c.f.Prices != nil {
		if currency = c.f.Prices.Currency; currency == "" && !c.r.wrong("prices", "prices.currency") {
			c.r.errorf("prices", "currency is missing")
		}
	}
	priced := false // a budget counts costs
	for _, name := range inOrder(c.r, "budgets", c.f.Budgets) {
		b, at := c.f.Budgets[name], "budgets."+name
		b.Name = name
		c.name(at, name)
		missing := func(key string, there bool) {
			if !there && !c.r.wrong(at, at+"."+key) {
				c.r.errorf(at, "%s is missing", key)
			}
		}
		missing("scope", b.Scope != "")
		missing("unit", b.Unit != "")
		if missing("limit", b.Limit > 0 || c.r.at[at+".limit"] != nil); b.Limit == 0 && c.r.at[at+".limit"] != nil && !c.r.wrong(at+".limit") {
			c.r.errorf(at+".limit", "want a number above 0")
		}
		if b.Scope == "run" && b.Per != "" {
			c.r.errorf(at+".per", "is not for scope run")
		} else if b.Scope != "run" {
			missing("per", b.Per != "")
		}
		if b.Unit != "tokens" && b.Unit != "" {
			if priced = true; b.Unit != currency {
				c.r.errorf(at+".unit", "want tokens or the currency of prices, got %q", b.Unit)
			}
		}
	}
	if priced && c.f.Prices != nil {
		for _, name := range inOrder(c.r, "agents", c.f.Agents) {
			c.priced("agents."+name, c.f.Agents[name])
		}
	}
}

// priced checks that an agent's models have prices, because a budget counts their cost.
func (c *checker) priced(at string, a *Agent) {
	models := []string{a.Model}
	for _, f := range a.Fallback {
		models = append(models, f.Model)
	}
	for i, name := range models {
		if name != "" && c.f.Prices.Models[name] == nil {
			where := ".model"
			if i > 0 {
				where = fmt.Sprintf(".fallback[%d].model", i-1)
			}
			c.r.errorf(at+where, "a budget needs its price: prices.models has no %q%s", name, document.Hint(name, slices.Sorted(maps.Keys(c.f.Prices.Models))))
		}
	}
}

// directory checks that a directory exists, relative to the server's.
func (c *checker) directory(at, name string) {
	if c.r.at[at] == nil || c.r.wrong(at) {
		return
	}
	if info, err := os.Stat(name); err != nil || !info.IsDir() {
		c.r.errorf(at, "there is no directory %q", name)
	}
}

// context checks a directory whose files every user can read: it must not contain the database.
func (c *checker) context(at, name string) {
	c.directory(at, name)
	if c.database == "" || c.r.wrong(at) {
		return
	}
	if dir, err := os.Stat(name); err == nil && inside(dir, c.database) {
		c.r.errorf(at, "contains the database %s: every user can read the text files of a context directory, so give them a directory of their own", c.database)
	}
}

// inside reports whether a file, which need not exist, is in a directory or below it.
func inside(dir os.FileInfo, file string) bool {
	at, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return false
	}
	if real, err := filepath.EvalSymlinks(at); err == nil {
		at = real
	}
	for ; ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && os.SameFile(info, dir) {
			return true
		}
		if at == filepath.Dir(at) {
			return false
		}
	}
}

// oneOf requires exactly one of several keys.
func (c *checker) oneOf(at string, there map[string]bool) {
	names := slices.Sorted(maps.Keys(there))
	list := strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	found := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !there[n] })
	switch {
	case len(found) == 0 && c.r.wrong(append(paths(at, names), at)...):
	case len(found) == 0:
		c.r.errorf(at, "%s is missing", list)
	case len(found) > 1:
		c.r.errorf(at, "want one of %s, got %s", list, strings.Join(found, " and "))
	}
}

func paths(at string, names []string) []string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = join(at, n)
	}
	return all
}

// only refuses keys that require another key.
func (c *checker) only(at, where, kind string, keys ...string) {
	for _, key := range keys {
		if p := at + "." + key; c.r.at[at+"."+kind] == nil && c.r.at[p] != nil {
			c.r.errorf(p, "is for %s with a %s", where, kind)
		}
	}
}

func (c *checker) command(at string, argv []string) {
	if argv != nil && (len(argv) == 0 || argv[0] == "") {
		c.r.errorf(at+".command", "name a program")
	}
}

// url checks a URL without quoting it, because it can contain a password.
func (c *checker) url(at, s string) {
	if s == "" {
		return
	}
	u, err := url.Parse(strings.TrimSpace(s))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		c.r.errorf(at, "want a URL such as https://example.com/path")
	}
}

// pattern checks an entry of tools: a name or pattern that matches a tool or agent.
func (c *checker) pattern(at, agent, pattern string) {
	if pattern == agent {
		c.r.errorf(at, "an agent cannot call itself")
		return
	}
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		c.r.errorf(at, "want a name or a pattern such as files.*, got %q", pattern)
		return
	}
	if server, tool, ok := strings.Cut(pattern, "."); ok && c.f.MCP[server] != nil {
		c.serverTool(at, server, tool)
		return
	} else if ok && c.boxes[server] {
		return
	}
	names := c.callable(agent)
	matches := func(n string) bool { ok, _ := path.Match(pattern, n); return ok }
	if slices.ContainsFunc(names, matches) || strings.ContainsAny(pattern, "*?[") && c.anyServer(matches) {
		return
	}
	what := "tool or agent"
	if strings.ContainsAny(pattern, "*?[") {
		what = "tool or agent that matches"
	}
	near := document.Hint(pattern, names)
	if server, _, ok := strings.Cut(pattern, "."); ok && near == "" {
		near = document.Hint(server, slices.Sorted(maps.Keys(c.boxes)))
		near = cmp.Or(near, document.Hint(server, slices.Sorted(maps.Keys(c.f.MCP))))
	}
	c.r.errorf(at, "there is no %s %q%s", what, pattern, near)
}

// serverTool checks a tool or pattern of a declared server. Only the server's allow list is known.
func (c *checker) serverTool(at, server, tool string) {
	allow := c.f.MCP[server].Allow
	switch {
	case tool == "":
		c.r.errorf(at, "name a tool of %s, or %s.* for all", server, server)
	case allow != nil && !overlaps(allow, tool):
		c.r.errorf(at, "mcp.%s.allow does not offer %q%s", server, tool, document.Hint(tool, allow))
	}
}

// overlaps reports whether a list of names or patterns can match the same names as pattern.
func overlaps(list []string, pattern string) bool {
	return slices.ContainsFunc(list, func(n string) bool {
		one, _ := path.Match(pattern, n)
		other, _ := path.Match(n, pattern)
		return one || other || strings.ContainsAny(n, "*?[") && strings.ContainsAny(pattern, "*?[")
	})
}

// anyServer reports whether a server can have a tool with a matching name.
func (c *checker) anyServer(matches func(string) bool) bool {
	for server, s := range c.f.MCP {
		for _, tool := range append([]string{"x"}, s.Allow...) {
			if matches(server + "." + tool) {
				return true
			}
		}
	}
	for program := range c.f.Tools {
		if matches(program + ".x") {
			return true
		}
	}
	return false
}

// callable returns the names that an agent can call, except the tools of servers.
func (c *checker) callable(agent string) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(c.tools)), maps.Keys(c.agents))
	for server := range c.f.MCP {
		names = append(names, server+".*")
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(n string) bool { return n == agent })
}

// inOrder returns the names of a section in the order of the file.
func inOrder[T any](r *reader, section string, named map[string]*T) []string {
	names := slices.Collect(maps.Keys(named))
	slices.SortFunc(names, func(a, b string) int {
		x, y := r.at[join(section, a)], r.at[join(section, b)]
		return cmp.Or(cmp.Compare(x.Line, y.Line), cmp.Compare(x.Column, y.Column))
	})
	return names
}
