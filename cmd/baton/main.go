// Command baton is Baton with the plugins that need no key. To add your own, copy this file.
package main

import (
	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/plugins/builtin"
)

func main() { cmd.Main(builtin.Plugins()...) }
