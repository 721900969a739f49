package plugins

import (
	"encoding/json"
	"path"
)

// queryParameters are the parameters of an agent that is called as a tool.
const queryParameters = `{"type":"object","properties":{"query":{"type":"string","description":"What the agent is asked. It sees nothing else of the conversation."}},"required":["query"]}`

// Tools describes the tools and agents that CallTool can call and that have a name matching a pattern, in the order of the
// patterns. A * in a pattern matches any characters, as in files.*. Agents have the Parameters that CallTool expects for
// them; a tool hides an agent of the same name. Shortly after the server's start Tools waits for tool servers that a pattern
// names. The client's tools are in Input.Tools.
func (r *Run) Tools(patterns ...string) []Info {
	if w, ok := r.host.(interface{ AwaitTools(patterns ...string) }); ok {
		w.AwaitTools(patterns...)
	}
	tools, agents := r.host.Plugins()
	for _, a := range agents {
		a.Parameters = json.RawMessage(queryParameters)
		tools = append(tools, a)
	}
	var list []Info
	taken := make(map[string]bool)
	for _, pattern := range patterns {
		for _, info := range tools {
			if ok, _ := path.Match(pattern, info.Name); ok && !taken[info.Name] {
				taken[info.Name] = true
				list = append(list, info)
			}
		}
	}
	return list
}
