package cmd

import (
	goruntime "runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"
)

// A small live heap gets smallLimit, a larger one a third more than its size, and one of pointers what a collection scans beside its size.
// stop restores the limit.
func TestTuneGC_LimitFollowsLiveHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(-1)
	stop := tuneGC()
	becomes := func(want func(limit int64) bool, heap string) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Minute); !want(debug.SetMemoryLimit(-1)); {
			if time.Now().After(deadline) {
				t.Fatalf("the limit is %d with a %s heap", debug.SetMemoryLimit(-1), heap)
			}
			goruntime.GC()
		}
	}
	isSmall := func(limit int64) bool { return limit >= smallLimit && limit < smallLimit/4*5 } // with memory beside the heap
	becomes(isSmall, "small")
	held := make([]byte, smallLimit)
	becomes(func(limit int64) bool { return limit > smallLimit/4*5 && limit < smallLimit/4*7 }, "larger")
	goruntime.KeepAlive(held)
	pointers := make([]*byte, smallLimit/8)
	becomes(func(limit int64) bool { return limit > smallLimit*2 }, "scanned")
	goruntime.KeepAlive(pointers)
	becomes(isSmall, "small again")
	stop()
	goruntime.GC()
	if limit := debug.SetMemoryLimit(-1); limit != before {
		t.Errorf("the limit is %d after stop, want %d", limit, before)
	}
}

// Stacks, which no collection frees, do not keep the collector running.
func TestTuneGC_IgnoresStacks(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	const each = 32 << 10
	release := make(chan struct{})
	var parked, left sync.WaitGroup
	for range smallLimit / each {
		parked.Add(1)
		left.Go(func() {
			deep(each/2, &parked, release)
		})
	}
	parked.Wait()
	defer left.Wait()
	defer close(release)
	defer tuneGC()()
	goruntime.GC()
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	for range 1000 { // half of minHeadroom
		allocated = make([]byte, 16<<10)
	}
	goruntime.ReadMemStats(&after)
	if n := after.NumGC - before.NumGC; n > 4 {
		t.Errorf("%d collections for 16 MiB beside %d MiB of stacks", n, after.StackInuse>>20)
	}
}

var allocated []byte

// deep waits with a stack of at least size bytes.
func deep(size int, parked *sync.WaitGroup, release chan struct{}) {
	var room [1 << 10]byte
	if size > len(room) {
		deep(size-len(room), parked, release)
	} else {
		parked.Done()
		<-release
	}
	goruntime.KeepAlive(&room)
}

func TestTuneGC_RespectsEnvironment(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "300")
			before := debug.SetMemoryLimit(-1)
			defer tuneGC()()
			if limit := debug.SetMemoryLimit(-1); limit != before {
				t.Errorf("the limit is %d, want %d", limit, before)
			}
		})
	}
}
