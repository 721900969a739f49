package graph

import (
	"encoding/json"
	"errors"
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

// AgentQuery returns the query in the arguments of a call of an agent as a tool.
func AgentQuery(raw json.RawMessage) (string, error) {
	var args map[string]json.RawMessage // not a struct: Go would also accept QUERY
	var text *string
	if json.Unmarshal(raw, &args) != nil || json.Unmarshal(args["query"], &text) != nil || text == nil {
		return "", errors.New("the arguments must be an object with the string query")
	}
	return *text, nil
}
