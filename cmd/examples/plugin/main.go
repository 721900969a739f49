// Command plugin is Baton with an agent and a tool of its own. A program of yours looks like this one.
package main

import (
	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/plugins/builtin"
)

func main() { cmd.Main(append(builtin.Plugins(), poet, rhymes)...) }
