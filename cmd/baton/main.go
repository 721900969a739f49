// Command baton is Baton with the built-in plugins, which need no keys. To add your own, copy this file.
package main

import (
	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/plugins/builtin"
)

func main() { cmd.Main(builtin.Plugins()...) }
