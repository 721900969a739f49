// Command plugin is Baton with its own agent and tool. Your program can look like this one.
package main

import (
	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/plugins/builtin"
)

func main() { cmd.Main(append(builtin.Plugins(), poet, rhymes)...) }
