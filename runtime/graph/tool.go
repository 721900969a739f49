package graph

import (
	"encoding/json"
	"strings"

	"github.com/batonrun/baton/plugins"
)

// toolRun is the front of the names of runs that are one call of a tool. No plugin's name has a colon.
const toolRun = "tool:"

// ToolRun is what a run that is one call of a tool has in the place of a workflow's name.
func ToolRun(tool string) string { return toolRun + tool }

// IsToolRun reports whether a workflow's name is one of ToolRun.
func IsToolRun(workflow string) bool { return strings.HasPrefix(workflow, toolRun) }

// OfTool is the definition of such a run: a graph of one node, whose arguments are the run's query, as it is.
func OfTool(tool string) json.RawMessage {
	definition, err := json.Marshal(plugins.Workflow{
		Name: ToolRun(tool), Nodes: []plugins.Node{{ID: "call", Tool: tool, Input: "query"}},
	})
	if err != nil {
		panic(err) // it is made of strings
	}
	return definition
}
