package graph

import (
	"encoding/json"
	"strings"

	"github.com/batonrun/baton/plugins"
)

// toolRun is the prefix of the workflow names of tool runs. A plugin's name cannot contain a colon.
const toolRun = "tool:"

// ToolRun returns the workflow name of a run that is one tool call.
func ToolRun(tool string) string { return toolRun + tool }

// IsToolRun reports whether a workflow name is from ToolRun.
func IsToolRun(workflow string) bool { return strings.HasPrefix(workflow, toolRun) }

// ToolOf returns the tool of a workflow name from ToolRun.
func ToolOf(workflow string) (tool string, ok bool) { return strings.CutPrefix(workflow, toolRun) }

// OfTool returns the definition of a tool run: one node with the run's query as its arguments.
func OfTool(tool string) json.RawMessage {
	definition, err := json.Marshal(plugins.Workflow{
		Name: ToolRun(tool), Nodes: []plugins.Node{{ID: "call", Tool: tool, Input: "query"}},
	})
	if err != nil {
		panic(err) // strings always encode
	}
	return definition
}
