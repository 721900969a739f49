package cmd

import (
	"os"
	goruntime "runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime"
)

const (
	// minHeadroom is the least amount of allocation between two collections.
	minHeadroom = 32 << 20

	// smallLimit is the memory limit while at most three quarters of it are in use.
	smallLimit = 256 << 20
)

// gcTuner adapts the memory limit to the live heap. Go's default, a collection whenever the heap has doubled, is too frequent for a
// small heap (a third of the CPU time of very short runs) and too rare in a burst of large requests (500 MiB for 250 MiB in use), which
// are cheap to collect: their texts are not scanned.
type gcTuner struct {
	before int64 // the memory limit before
	max    int64 // the largest limit

	mu      sync.Mutex // guards the fields below
	ballast []byte     // raises the live heap by minHeadroom; takes no memory, because it is never written
	limit   int64      // the current limit
}

// tuneGC tunes the garbage collector until stop is called. It does nothing if GOGC or GOMEMLIMIT is set. Create the server before:
// its default limits depend on the memory limit of the process.
//
// It also collects an idle process every half minute, so that the process returns the memory of past load. Go itself waits for two
// minutes, and needs two collections to empty its pools.
func tuneGC() (stop func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before := debug.SetMemoryLimit(-1)
	g := &gcTuner{before: before, limit: before, max: min(before, runtime.Memory()/10*9), ballast: make([]byte, minHeadroom)}
	g.adjust()
	stopIdle := collectIdle()
	return func() {
		stopIdle()
		g.reset()
	}
}

// collectIdle runs a collection after each half minute without one, until stop is called.
func collectIdle() (stop func()) {
	const idle = 30 * time.Second
	tick := time.NewTicker(idle)
	done := make(chan struct{})
	go func() { // ends with stop
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
	}
}

// adjust sets the limit for the current live heap, and runs again after the next collection.
func (g *gcTuner) adjust() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ballast == nil {
		return
	}
	live, scanned, other := memoryInUse()
	if limit := min(limitFor(live-minHeadroom, scanned)+other, g.max); limit != g.limit {
		debug.SetMemoryLimit(limit)
		g.limit = limit
	}
	goruntime.AddCleanup(new([64]byte), (*gcTuner).adjust, g)
}

// limitFor returns the limit for a live heap of so many bytes, without other memory: a third above it, and as much as a collection
// scans. Thousands of runs would otherwise keep the collector running.
func limitFor(live, scanned int64) int64 { return max(smallLimit, live/3*4, live+scanned) }

func (g *gcTuner) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ballast = nil
	debug.SetMemoryLimit(g.before)
}

// memoryInUse returns the live heap at the last collection, what a collection scans, and the other memory that collections do not free.
// The stacks of twenty thousand streams alone could exceed the limit and keep the collector running all the time.
func memoryInUse() (live, scanned, other int64) {
	s := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/scan/total:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/memory/classes/os-stacks:bytes"},
		{Name: "/memory/classes/other:bytes"},
		{Name: "/memory/classes/metadata/mspan/inuse:bytes"},
		{Name: "/memory/classes/metadata/other:bytes"},
	}
	metrics.Read(s)
	size := func(i int) int64 { return int64(s[i].Value.Uint64()) } //nolint:gosec // less than the machine's memory
	for i := 2; i < len(s); i++ {
		other += size(i)
	}
	const step = 4 << 20 // do not set a new limit for each stack
	return size(0), size(1), (other + step - 1) / step * step
}
