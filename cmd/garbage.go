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
	// garbageRoom is how much a server that keeps little in memory makes new before it looks for what it needs no more.
	garbageRoom = 32 << 20

	// fewBytes is what a server stays within that keeps no more than three quarters of it.
	fewBytes = 256 << 20

	// muchBytes is what one grows to by a third more than it keeps. Beyond it, to look so often would take too much time.
	muchBytes = 512 << 20
)

// garbage is how much a server makes new before the collector runs. Left alone that waits for as much as there is to keep: too
// little where that is little, which took a third of the time of runs that only begin and end, and too much with a burst of
// large requests, when a server that needs 250 MiB came to 500.
type garbage struct {
	before int64 // the memory limit that the process had
	much   int64 // the one of a server that keeps much

	mu    sync.Mutex
	room  []byte // counts as kept, and takes no memory as nothing is written to it
	limit int64  // in force
}

// boundGarbage has the collector run by what is kept, until unbound is called. What the machine carries is judged by its
// memory limit, too, so a server is made before. Whoever sets GOGC or GOMEMLIMIT knows better.
//
// An idle process is collected every half minute, so that it gives the memory of past load back: Go itself waits for two minutes, and
// needs two collections to empty its pools.
func boundGarbage() (unbound func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before := debug.SetMemoryLimit(-1)
	g := &garbage{before: before, limit: before, much: min(before, runtime.Memory()/10*9), room: make([]byte, garbageRoom)}
	g.follow()
	stop := collectIdle()
	return func() {
		stop()
		g.unbound()
	}
}

// collectIdle collects every half minute in which nothing else did, until stop is called.
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

// follow sets the limit for what is kept now, and does so again after the next collection.
func (g *garbage) follow() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.room == nil {
		return
	}
	kept, beside := held()
	if limit := g.limitFor(kept-garbageRoom) + beside; limit != g.limit {
		debug.SetMemoryLimit(limit)
		g.limit = limit
	}
	goruntime.AddCleanup(new([64]byte), (*garbage).follow, g)
}

// limitFor is the limit of a server that keeps so many bytes, without what is beside them.
func (g *garbage) limitFor(kept int64) int64 {
	limit := max(fewBytes, kept/3*4)
	if limit > muchBytes {
		return g.much
	}
	return min(limit, g.much)
}

func (g *garbage) unbound() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.room = nil
	debug.SetMemoryLimit(g.before)
}

// held is how many bytes the last collection has found in use, and how many are beside them that no collection gives back: the stacks
// of twenty thousand streams alone would come to the limit, and have the collector run all the time.
func held() (kept, beside int64) {
	s := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/memory/classes/os-stacks:bytes"},
		{Name: "/memory/classes/other:bytes"},
		{Name: "/memory/classes/metadata/mspan/inuse:bytes"},
		{Name: "/memory/classes/metadata/other:bytes"},
	}
	metrics.Read(s)
	for _, m := range s[1:] {
		beside += int64(m.Value.Uint64()) //nolint:gosec // less than there is memory
	}
	const step = 4 << 20                                                 // of the limit, which is not set for each stack
	return int64(s[0].Value.Uint64()), (beside + step - 1) / step * step //nolint:gosec // less than there is memory
}
