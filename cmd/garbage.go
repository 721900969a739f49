package cmd

import (
	"os"
	goruntime "runtime"
	"runtime/debug"
	"time"

	"github.com/batonrun/baton/runtime"
)

// boundMemory sets the process's memory limit to nine tenths of the memory it may use, unless GOMEMLIMIT sets it. Far from the
// limit Go's own rule holds: the heap may double before a collection. Near the limit the collector runs more often. An idle
// process is collected every half minute, so that it gives the memory of past load back: Go itself waits for two minutes, and
// needs two collections to empty its pools. Call boundMemory after the server was made, because the limit counts in
// runtime.Memory. It returns a function that ends this.
func boundMemory() (unbound func()) {
	before := debug.SetMemoryLimit(-1)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(runtime.Memory() / 10 * 9)
	}
	const idle = 30 * time.Second
	tick := time.NewTicker(idle)
	done := make(chan struct{})
	go func() { // ends with unbound
		var stats debug.GCStats
		for {
			select {
			case <-tick.C:
			case <-done:
				return
			}
			if debug.ReadGCStats(&stats); time.Since(stats.LastGC) >= idle-time.Second {
				goruntime.GC()
			}
		}
	}()
	return func() {
		tick.Stop()
		close(done)
		debug.SetMemoryLimit(before)
	}
}
