package exec

import (
	"encoding/json"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/graph"
)

// clientTools are the tools that a run's client offers.
type clientTools struct {
	tools   []agui.Tool
	byName  map[string]int // indexes of tools
	schemas graph.ClientTools
}

func newClientTools(tools []agui.Tool) *clientTools {
	ct := &clientTools{tools: tools, byName: make(map[string]int, len(tools))}
	for i := range tools {
		if _, known := ct.byName[tools[i].Name]; !known {
			ct.byName[tools[i].Name] = i
		}
	}
	return ct
}

// mayAnswer reports whether the client has to answer a call, and the call's arguments as they fit the client's tool. A call with
// invalid arguments is its caller's mistake, and the client is not asked, nor for a call that its worker answers or a guard changes.
func (ct *clientTools) mayAnswer(u plugins.Use) (args json.RawMessage, ok bool) {
	args, offered, mistake := ct.fit(u)
	return args, offered && mistake == nil && u.Output == nil && u.Edited == nil && u.Approval == ""
}

// fit reports whether the client offers the tool of a call, and the arguments as they fit it, or the mistake in them.
func (ct *clientTools) fit(u plugins.Use) (args json.RawMessage, offered bool, mistake error) {
	i, ok := ct.byName[u.Name]
	if !ok {
		return nil, false, nil
	}
	args, mistake = ct.schemas.Fit(ct.tools[i].Parameters, u.Request)
	return args, true, mistake
}
