package declared

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/batonrun/baton/config/document"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/graph"
)

// guards checks the guards of an agent.
func (c *checker) guards(at string, a *Agent) {
	for on, list := range map[string][]*Guard{plugins.GuardInput: a.Guard.Input, plugins.GuardTool: a.Guard.Tool, plugins.GuardOutput: a.Guard.Output} {
		for i, g := range list {
			at := fmt.Sprintf("%s.%s[%d]", at, on, i)
			c.oneOf(at, map[string]bool{"agent": g.Agent != "", "tool": g.Tool != "", "expr": g.Expr != ""})
			switch {
			case g.Agent == a.Name && g.Agent != "":
				c.r.errorf(at+".agent", "an agent cannot guard itself")
			case g.Agent != "" && !c.agents[g.Agent]:
				c.r.errorf(at+".agent", "there is no agent %q%s", g.Agent, document.Hint(g.Agent, slices.Sorted(maps.Keys(c.agents))))
			case g.Tool != "" && !c.tools[g.Tool]:
				c.nodeTool(at+".tool", g.Tool)
			case g.Expr != "":
				if _, err := graph.Guard(string(g.Expr)); err != nil {
					text, _, _ := strings.Cut(err.Error(), "\n")
					c.r.errorf(at+".expr", "%s", text)
				}
				if g.Name == "" && !c.r.wrong(at, at+".name") {
					c.r.errorf(at, "name is missing: events name the guard")
				}
			}
			if len(g.Name) > 100 {
				c.r.errorf(at+".name", "a guard's name has at most 100 bytes")
			}
		}
	}
}

// Plugins returns the guards as those of a plugin.
func (gs Guards) Plugins() plugins.Guards {
	of := func(list []*Guard) (all []plugins.Guard) {
		for _, g := range list {
			guard := plugins.Guard{Name: g.Name, Agent: g.Agent, Tool: g.Tool, Rule: string(g.Expr), Timeout: g.Timeout}
			if g.Expr != "" {
				guard.Check, _ = graph.Guard(string(g.Expr)) // it was checked
			}
			all = append(all, guard)
		}
		return all
	}
	return plugins.Guards{Input: of(gs.Input), Tool: of(gs.Tool), Output: of(gs.Output)}
}
