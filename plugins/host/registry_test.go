package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
)

// spec is an agent, or part of a tool, with the given description only.
type spec struct {
	plugins.Agent
	info plugins.Info
}

func (s spec) Info() plugins.Info { return s.info }

type toolSpec struct {
	plugins.Tool
	info plugins.Info
}

func (s toolSpec) Info() plugins.Info { return s.info }

func agentNamed(name string) plugins.Plugin { return spec{info: plugins.Info{Name: name}} }

func toolNamed(name string) plugins.Plugin { return toolSpec{info: plugins.Info{Name: name}} }

func TestRegistry_FindsAndSorts(t *testing.T) {
	var r host.Registry
	w := plugins.Workflow{Name: "w", Nodes: []plugins.Node{{ID: "n", Agent: "b"}, {ID: "m", Tool: "a", Needs: []string{"n"}}}}
	if err := r.Add(w, agentNamed("b"), agentNamed("a"), toolNamed("z"), toolNamed("a")); err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	var names []string
	for _, a := range r.Agents() {
		names = append(names, a.Info().Name)
	}
	for _, tl := range r.Tools() {
		names = append(names, tl.Info().Name)
	}
	for _, w := range r.Workflows() {
		names = append(names, w.Name)
	}
	if want := []string{"a", "b", "a", "z", "w"}; !slices.Equal(names, want) {
		t.Errorf("names %v, want %v", names, want)
	}
	_, isAgent := r.Agent("a")
	_, isTool := r.Tool("z")
	_, isWorkflow := r.Workflow("w")
	_, no := r.Agent("z")
	if !isAgent || !isTool || !isWorkflow || no {
		t.Error("a look-up failed")
	}
}

func TestRegistry_ZeroValueWorks(t *testing.T) {
	var r host.Registry
	_, found := r.Tool("x")
	if err := errors.Join(r.Validate(), r.Start(t.Context()), r.Check(t.Context()), r.Close(t.Context())); err != nil || found {
		t.Error(err, found)
	}
	if got := len(r.Agents()) + len(r.Tools()) + len(r.Workflows()); got != 0 {
		t.Errorf("%d plugins", got)
	}
}

func TestRegistry_RefusesInvalidPlugins(t *testing.T) {
	node := func(id string, needs ...string) plugins.Node { return plugins.Node{ID: id, Agent: "a", Needs: needs} }
	flow := func(nodes ...plugins.Node) plugins.Plugin { return plugins.Workflow{Name: "w", Nodes: nodes} }
	parameters := func(schema string) plugins.Plugin {
		return toolSpec{info: plugins.Info{Name: "t", Parameters: json.RawMessage(schema)}}
	}
	for _, tt := range []struct {
		why  string
		list []plugins.Plugin
	}{
		{"plugin is nil", []plugins.Plugin{nil}},
		{"name must match", []plugins.Plugin{agentNamed("")}},
		{"name must match", []plugins.Plugin{agentNamed("-a")}},
		{"name must match", []plugins.Plugin{agentNamed("a b")}},
		{"reserved for the address", []plugins.Plugin{agentNamed("events")}},
		{"reserved for the address", []plugins.Plugin{plugins.Workflow{Name: "events", Nodes: []plugins.Node{{ID: "n", Agent: "a"}}}}},
		{"name must match", []plugins.Plugin{toolNamed(strings.Repeat("a", 65))}},
		{"timeout is negative", []plugins.Plugin{spec{info: plugins.Info{Name: "a", Timeout: -time.Second}}}},
		{"concurrency is negative", []plugins.Plugin{spec{info: plugins.Info{Name: "a", Concurrency: -1}}}},
		{"a dot", []plugins.Plugin{&box{name: "a.b"}}},
		{"taken", []plugins.Plugin{&box{name: "a"}, &box{name: "a"}}},
		{"taken", []plugins.Plugin{&box{name: "a"}, toolNamed("a.t")}},
		{"taken", []plugins.Plugin{toolNamed("a.t"), &box{name: "a"}}},
		{"taken", []plugins.Plugin{toolNamed("a"), &box{name: "a"}}},
		{"neither an Agent, a Tool, a Toolbox nor a Workflow", []plugins.Plugin{onlyInfo{}}},
		{"both an Agent and a Tool", []plugins.Plugin{agentAndTool{}}},
		{"taken", []plugins.Plugin{agentNamed("a"), agentNamed("a")}},
		{"taken", []plugins.Plugin{agentNamed("w"), flow(node("n"))}},
		{"taken", []plugins.Plugin{flow(node("n")), agentNamed("w")}},
		{"taken", []plugins.Plugin{toolNamed("t"), toolNamed("t")}},
		{"parameters", []plugins.Plugin{parameters(`true`)}},
		{"parameters", []plugins.Plugin{parameters(`null`)}},
		{"the schema of an object", []plugins.Plugin{parameters(`{"type":"string"}`)}},
		{"no function", []plugins.Plugin{plugins.AgentFunc("x", nil)}},
		{"parameters", []plugins.Plugin{parameters(`{"type": `)}},
		{"no nodes", []plugins.Plugin{flow()}},
		{"id must match", []plugins.Plugin{flow(node("a-b"))}},
		{"id is taken", []plugins.Plugin{flow(node("n"), node("n"))}},
		{"one of an agent", []plugins.Plugin{flow(plugins.Node{ID: "n"})}},
		{"one of an agent", []plugins.Plugin{flow(plugins.Node{ID: "n", Agent: "a", Tool: "t"})}},
		{"one of an agent", []plugins.Plugin{flow(plugins.Node{ID: "n", Agent: "a", Ask: &plugins.Ask{}})}},
		{"needs a message", []plugins.Plugin{flow(plugins.Node{ID: "n", Ask: &plugins.Ask{}})}},
		{"Skip or Output", []plugins.Plugin{flow(plugins.Node{ID: "n", Ask: &plugins.Ask{Skip: true, Output: "1"}, Approver: plugins.Approver{Message: "query"}})}},
		{"for a node with an agent", []plugins.Plugin{flow(plugins.Node{ID: "n", Wait: plugins.NodeWait{For: 1}, Input: "query"})}},
		{"wait for a time", []plugins.Plugin{flow(plugins.Node{ID: "n", Wait: plugins.NodeWait{For: 1, Until: "query"}})}},
		{"repeat needs Until", []plugins.Plugin{flow(plugins.Node{ID: "n", Agent: "a", Repeat: plugins.Repeat{Max: 2}})}},
		{"Max of up to 100", []plugins.Plugin{flow(plugins.Node{ID: "n", Agent: "a", Repeat: plugins.Repeat{Until: "true", Max: 101}})}},
		{"does not exist", []plugins.Plugin{flow(node("n", "m"))}},
		{"twice", []plugins.Plugin{flow(node("m"), node("n", "m", "m"))}},
		{"cycle", []plugins.Plugin{flow(node("n", "n"))}},
		{"cycle", []plugins.Plugin{flow(node("o"), node("n", "m"), node("m", "o", "n"))}},
		{"timeout is negative", []plugins.Plugin{flow(plugins.Node{ID: "n", Agent: "a", Timeout: -1})}},
		{"retry is negative", []plugins.Plugin{flow(plugins.Node{ID: "n", Agent: "a", Retry: plugins.Retry{Retries: -1}})}},
	} {
		var r host.Registry
		if err := r.Add(tt.list...); err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("Add(%v) = %v, want %q", tt.list, err, tt.why)
		}
	}
}

type onlyInfo struct{}

func (onlyInfo) Info() plugins.Info { return plugins.Info{Name: "x"} }

type agentAndTool struct {
	plugins.Agent
	toolSpec
}

func (agentAndTool) Info() plugins.Info { return plugins.Info{Name: "x"} }

func TestRegistry_ValidateFindsMissingPlugins(t *testing.T) {
	for _, n := range []plugins.Node{{ID: "n", Agent: "gone"}, {ID: "n", Tool: "gone"}, {ID: "n", Agent: "w"}} {
		var r host.Registry
		if err := r.Add(plugins.Workflow{Name: "w", Nodes: []plugins.Node{n}}); err != nil {
			t.Fatal(err)
		}
		if err := r.Validate(); err == nil {
			t.Errorf("a workflow with %+v is valid", n)
		}
	}
}

// lived is an agent that logs its start, check and close.
type lived struct {
	spec
	log  *[]string
	fail string // the method that fails
}

func (l lived) note(what string) error {
	*l.log = append(*l.log, what+" "+l.info.Name)
	if l.fail == what {
		return fmt.Errorf("cannot %s", what)
	}
	return nil
}

func (l lived) Start(context.Context) error { return l.note("start") }
func (l lived) Close(context.Context) error { return l.note("close") }
func (l lived) Check(context.Context) error { return l.note("check") }

func TestRegistry_StartsAndCloses(t *testing.T) {
	for _, tt := range []struct {
		fail string // method of the second of three plugins
		want string
	}{
		{"", "start a, start b, start c, check a, check b, check c, close c, close b, close a"},
		{"start", "start a, start b, check a, check b, check c, close a"},
		{"check", "start a, start b, start c, check a, check b, check c, close c, close b, close a"},
		{"close", "start a, start b, start c, check a, check b, check c, close c, close b, close a"},
	} {
		var log []string
		var r host.Registry
		for _, name := range []string{"a", "b", "c"} {
			l := lived{spec: spec{info: plugins.Info{Name: name}}, log: &log}
			if name == "b" {
				l.fail = tt.fail
			}
			if err := r.Add(l); err != nil {
				t.Fatal(err)
			}
		}
		err := errors.Join(r.Start(t.Context()), r.Check(t.Context()), r.Close(t.Context()))
		if got := strings.Join(log, ", "); got != tt.want {
			t.Errorf("%q fails: got  %s\nwant %s", tt.fail, got, tt.want)
		}
		if (err != nil) != (tt.fail != "") || err != nil && !strings.Contains(err.Error(), `plugin "b": cannot `+tt.fail) {
			t.Errorf("%q fails: error %v", tt.fail, err)
		}
	}
}

// box is a toolbox of the given tools.
type box struct {
	name  string
	tools []plugins.Tool
}

func (b *box) Info() plugins.Info    { return plugins.Info{Name: b.name} }
func (b *box) Tools() []plugins.Tool { return b.tools }

func TestRegistry_ToolsOfToolboxChange(t *testing.T) {
	files := &box{name: "files"}
	var r host.Registry
	uses := plugins.Workflow{Name: "w", Nodes: []plugins.Node{{ID: "n", Tool: "files.read"}}}
	if err := r.Add(files, toolNamed("clock"), uses); err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(); err != nil {
		t.Errorf("a workflow names a tool that may come: %v", err)
	}
	named := func(names ...string) (list []plugins.Tool) {
		for _, n := range names {
			list = append(list, toolNamed(n).(plugins.Tool))
		}
		return list
	}
	for _, tt := range []struct{ has, want []string }{
		{nil, []string{"clock"}},
		{[]string{"files.read", "files.write"}, []string{"clock", "files.read", "files.write"}},
		{[]string{"files.write", "clock", "read", "other.read", "files.a b"}, []string{"clock", "files.write"}},
	} {
		files.tools = named(tt.has...)
		var got []string
		for _, tool := range r.Tools() {
			name := tool.Info().Name
			got = append(got, name)
			if found, ok := r.Tool(name); !ok || found.Info().Name != name {
				t.Errorf("Tool(%q) = %v, %v", name, found, ok)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("with %v: got %v, want %v", tt.has, got, tt.want)
		}
	}
	if _, ok := r.Tool("files.read"); ok {
		t.Error("a tool that has gone is found")
	}
	if _, ok := r.Tool("files.a b"); ok {
		t.Error("a tool with an invalid name is found")
	}
}

func TestRegistry_SharedPluginsStartOnce(t *testing.T) {
	var log []string
	plugin := func(name, fail string) plugins.Plugin {
		return &lived{spec: spec{info: plugins.Info{Name: name}}, log: &log, fail: fail}
	}
	stays, goes, comes := plugin("stays", ""), plugin("goes", ""), plugin("comes", "")
	registry := func(list ...plugins.Plugin) *host.Registry {
		r := new(host.Registry)
		if err := r.Add(list...); err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := registry(goes, stays)
	if err := first.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	broken := registry(plugin("closer", ""), plugin("broken", "start"), stays)
	broken.Share(first)
	if err := broken.Start(t.Context()); err == nil {
		t.Error("a plugin that does not start is started")
	}
	second := registry(stays, comes)
	second.Share(first)
	err := errors.Join(broken.Close(t.Context()), second.Start(t.Context()), first.Close(t.Context()), second.Close(t.Context()))
	want := "start goes, start stays, start closer, start broken, close closer, start comes, close goes, close comes, close stays"
	if got := strings.Join(log, ", "); got != want || err != nil {
		t.Errorf("got  %s\nwant %s\nerror %v", got, want, err)
	}
}

// boxFor is a toolbox of the project p4.
type boxFor struct{ *box }

func (b boxFor) Info() plugins.Info { return plugins.Info{Name: b.name, Projects: []string{"p4"}} }

func TestRegistry_ForProject(t *testing.T) {
	at := func(name string, projects ...string) plugins.Info {
		return plugins.Info{Name: name, Projects: projects}
	}
	agent := func(info plugins.Info) plugins.Plugin { return spec{info: info} }
	tool := func(info plugins.Info) plugins.Plugin { return toolSpec{info: info} }
	flow := func(name string, n plugins.Node, projects ...string) plugins.Workflow {
		n.ID = "n"
		return plugins.Workflow{Name: name, Projects: projects, Nodes: []plugins.Node{n}}
	}
	var r host.Registry
	if err := r.Add(agent(at("all")), tool(at("everywhere"))); err != nil {
		t.Fatal(err)
	}
	if r.For("p1") != &r {
		t.Error("without limits For returns another registry")
	}
	if err := r.Add(
		agent(at("one", "p1")), agent(at("both", "p1", "p2")), tool(at("hammer", "p1")), boxFor{&box{"hidden", []plugins.Tool{toolSpec{info: at("hidden.read")}}}},
		flow("free", plugins.Node{Agent: "all"}), flow("limited", plugins.Node{Agent: "all"}, "p2"),
		flow("by-agent", plugins.Node{Agent: "one"}), flow("by-tool", plugins.Node{Tool: "hammer"}),
	); err != nil {
		t.Fatal(err)
	}
	for project, want := range map[string]string{
		"p1": "all both one | everywhere hammer | by-agent by-tool free",
		"p2": "all both | everywhere | free limited",
		"p3": "all | everywhere | free",
		"p4": "all | everywhere hidden.read | free",
		"":   "all | everywhere | free",
	} {
		view := r.For(project)
		var agents, tools, flows []string
		for _, a := range view.Agents() {
			agents = append(agents, a.Info().Name)
		}
		for _, tool := range view.Tools() {
			tools = append(tools, tool.Info().Name)
		}
		for _, w := range view.Workflows() {
			flows = append(flows, w.Name)
		}
		got := strings.Join(agents, " ") + " | " + strings.Join(tools, " ") + " | " + strings.Join(flows, " ")
		if got != want {
			t.Errorf("%q: got %s, want %s", project, got, want)
		}
		_, found := view.Agent("one")
		_, called := view.Tool("hammer")
		_, runs := view.Workflow("by-agent")
		if here := project == "p1"; found != here || called != here || runs != here {
			t.Errorf("%q: finds %v, %v, %v", project, found, called, runs)
		}
	}
	if err := r.Add(agent(at("nameless", ""))); err == nil {
		t.Error("a project without a name is accepted")
	}
}

// An unstarted registry starts and checks nothing. It closes plugins that need no start.
func TestRegistry_KeepUnstarted(t *testing.T) {
	var log []string
	opened := struct {
		spec
		plugins.Closer
	}{spec{info: plugins.Info{Name: "opened"}}, lived{log: &log, spec: spec{info: plugins.Info{Name: "opened"}}}}
	var r host.Registry
	if err := r.Add(lived{spec: spec{info: plugins.Info{Name: "a"}}, log: &log}, opened, reporting{&box{name: "files"}}); err != nil {
		t.Fatal(err)
	}
	r.KeepUnstarted()
	if err := errors.Join(r.Start(t.Context()), r.Check(t.Context()), r.Close(t.Context())); err != nil || !slices.Equal(log, []string{"close opened"}) {
		t.Errorf("%q, %v", log, err)
	}
	files, _ := r.For("p").Toolbox("files.read")
	if h := r.For("p").Health(files); h != nil || len(r.Unwell()) > 0 {
		t.Errorf("%+v, %v", h, r.Unwell())
	}
}

func TestOffer_TellsPluginsOfProjects(t *testing.T) {
	r := new(host.Registry)
	if err := r.Add(
		spec{info: plugins.Info{Name: "a", Projects: []string{"p1", "p2"}}}, spec{info: plugins.Info{Name: "gpu", RunOn: "gpu"}},
		toolNamed("t"), boxFor{&box{name: "files"}},
		plugins.Workflow{Name: "both", Projects: []string{"p2", "p3"}, Nodes: []plugins.Node{{ID: "n", Agent: "a"}, {ID: "m", Tool: "t"}}},
		plugins.Workflow{Name: "never", Nodes: []plugins.Node{{ID: "n", Agent: "a"}, {ID: "m", Tool: "files.read"}}},
	); err != nil {
		t.Fatal(err)
	}
	var told []host.Offered
	if text, err := json.Marshal(r.Offer()); err != nil || json.Unmarshal(text, &told) != nil {
		t.Fatal(err)
	}
	for project, want := range map[string]string{
		"p1": "agent a, agent gpu on gpu, tool t",
		"p2": "agent a, agent gpu on gpu, tool t, workflow both",
		"p3": "agent gpu on gpu, tool t",
		"p4": "agent gpu on gpu, tool t, tool server files",
	} {
		var got []string
		for _, o := range told {
			if o.In(project) {
				got = append(got, strings.TrimSuffix(o.Kind+" "+o.Name+" on "+o.RunOn, " on "))
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: got %q, want %s", project, got, want)
		}
	}
	for of, want := range map[string]string{"agent a": "a", "tool t": "t", "tool files.read": "files", "tool filesystem.read": "", "agent t": ""} {
		kind, name, _ := strings.Cut(of, " ")
		node := plugins.Node{Agent: name}
		if kind == "tool" {
			node = plugins.Node{Tool: name}
		}
		at := slices.IndexFunc(told, func(o host.Offered) bool { return o.Executes(&node) })
		if at < 0 && want != "" || at >= 0 && told[at].Name != want {
			t.Errorf("%s is executed by the plugin %d, want %q", of, at, want)
		}
	}
}

// A definition has the same hash on each server, wherever its file is and whatever its program says of itself.
func TestOffer_HashesDefinitions(t *testing.T) {
	of := func(p plugins.Plugin, origin host.Origin) string {
		r := new(host.Registry)
		if err := r.Add(host.From{Plugin: p, Origin: origin}); err != nil {
			t.Fatal(err)
		}
		return r.Offer()[0].Hash
	}
	origin := host.Origin{Kind: host.OriginYAML, File: "a.yaml", Line: 1, Model: "m", System: "Be brief."}
	info := plugins.Info{Name: "x", Description: "one"}
	first := of(spec{info: info}, origin)
	moved, other := origin, origin
	moved.File, moved.Line, other.System = "b.yaml", 2, "Be long."
	described, guarded := info, info
	described.Description, guarded.Guards = "two", plugins.Guards{Input: []plugins.Guard{{Agent: "judge"}}}
	flow := func(agent string) plugins.Workflow {
		return plugins.Workflow{Name: "f", Nodes: []plugins.Node{{ID: "n", Agent: agent}}}
	}
	if of(spec{info: info}, moved) != first || of(spec{info: described}, origin) != first {
		t.Error("equal definitions have different hashes")
	}
	if of(spec{info: info}, other) == first || of(spec{info: guarded}, origin) == first || of(flow("a"), origin) == of(flow("b"), origin) {
		t.Error("different definitions have the same hash")
	}
}

// reporting is a toolbox with a health.
type reporting struct{ *box }

func (reporting) Health() *plugins.Health { return &plugins.Health{Detail: "away"} }

func TestRegistry_RecordsOriginAndHealth(t *testing.T) {
	file := host.Origin{Kind: host.OriginMCP, File: "baton.yaml", Line: 3, Server: "files"}
	files := reporting{&box{"files", []plugins.Tool{toolNamed("files.read").(plugins.Tool)}}}
	flow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "n", Agent: "one"}}}
	var r host.Registry
	if err := r.Add(
		agentNamed("one"), toolNamed("one"),
		host.From{Plugin: files, Origin: file},
		host.From{Plugin: flow, Origin: host.Origin{Kind: host.OriginYAML}},
	); err != nil {
		t.Fatal(err)
	}
	if err := r.Add(host.From{Origin: file}); err == nil {
		t.Error("nothing was added")
	}
	got := map[string]any{}
	for _, view := range []*host.Registry{&r, r.For("p")} {
		for _, a := range view.Agents() {
			got["agent"] = []any{view.Origin(a), view.Health(a)}
		}
		for _, tl := range view.Tools() {
			got[tl.Info().Name] = []any{view.Origin(tl), view.Health(tl)}
		}
		for _, b := range view.Toolboxes() {
			got["box"] = []any{view.Origin(b), view.Health(b)}
		}
		for _, w := range view.Workflows() {
			got["workflow"] = []any{view.Origin(w), view.Health(w)}
		}
		program, none := host.Origin{Kind: host.OriginProgram}, (*plugins.Health)(nil)
		want := map[string]any{
			"agent": []any{program, none}, "one": []any{program, none},
			"files.read": []any{file, &plugins.Health{Detail: "away"}}, "box": []any{file, &plugins.Health{Detail: "away"}},
			"workflow": []any{host.Origin{Kind: host.OriginYAML}, none},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(map[string]string{"files": "away"}, r.Unwell()); diff != "" {
		t.Errorf("not well (-want +got):\n%s", diff)
	}
}

// choosing is an agent whose model takes two tools.
type choosing struct {
	spec
	patterns []string
}

func (c choosing) Chooses() (patterns []string, most int) { return c.patterns, 2 }

func TestRegistry_NamesAgentsWithTooManyTools(t *testing.T) {
	for _, test := range []struct {
		patterns []string
		want     string
	}{
		{[]string{"files.read", "files.write"}, ""},
		{[]string{"files.read", "files.*"}, `the model takes 2 tools, and there are 3: narrow "files.*", which matches 3 of them`},
		{[]string{"files.read", "files.write", "other"}, `the model takes 2 tools, and there are 3: narrow "files.read", which matches 1 of them`},
	} {
		files := &box{"files", []plugins.Tool{toolNamed("files.read").(plugins.Tool), toolNamed("files.write").(plugins.Tool), toolNamed("files.move").(plugins.Tool)}}
		var r host.Registry
		if err := r.Add(choosing{spec{info: plugins.Info{Name: "writer"}}, test.patterns}, agentNamed("other"), files); err != nil {
			t.Fatal(err)
		}
		if got := r.Unwell()["writer"]; got != test.want {
			t.Errorf("%q: got %q, want %q", test.patterns, got, test.want)
		}
	}
}
