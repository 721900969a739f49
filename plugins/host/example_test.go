package host_test

import (
	"fmt"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/echo"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/plugins/tools"
)

func ExampleRegistry() {
	var registry host.Registry
	err := registry.Add(
		echo.Agent{},
		tools.Calculator{},
		plugins.Workflow{Name: "ship", Nodes: []plugins.Node{
			{ID: "compute", Tool: "calculator", Input: `{"expression": query}`},
			{ID: "echoed", Agent: "echo", Needs: []string{"compute"}},
		}},
	)
	if err != nil {
		fmt.Println(err)
	}
	if err := registry.Validate(); err != nil {
		fmt.Println(err)
	}
	for _, t := range registry.Tools() {
		fmt.Println(t.Info().Name)
	}
	// Output: calculator
}
