package cmd

import (
	"os"
	"runtime/debug"

	"github.com/batonrun/baton/runtime"
)

// limitMemory sets the process's memory limit to nine tenths of the memory it may use, unless GOMEMLIMIT sets it, and returns a
// function that restores the previous limit. Far from the limit Go's own rule holds: the heap may double before a collection.
// Near the limit the collector runs more often. Call it after the server was made, because the limit counts in runtime.Memory.
func limitMemory() (restore func()) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before := debug.SetMemoryLimit(runtime.Memory() / 10 * 9)
	return func() { debug.SetMemoryLimit(before) }
}
