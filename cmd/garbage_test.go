package cmd

import (
	goruntime "runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"
)

// TestGarbageIsBoundByWhatIsKept: a server that keeps little stays within fewBytes, one that keeps more within a third more than that,
// one that keeps much may have all of the machine's memory, and what the process had before is there again behind it.
func TestGarbageIsBoundByWhatIsKept(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(-1)
	unbound := boundGarbage()
	becomes := func(want func(limit int64) bool, what string) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Minute); !want(debug.SetMemoryLimit(-1)); {
			if time.Now().After(deadline) {
				t.Fatalf("the limit is %d: %s", debug.SetMemoryLimit(-1), what)
			}
			goruntime.GC()
		}
	}
	few := func(limit int64) bool { return limit >= fewBytes && limit < fewBytes/4*5 } // and what is beside the heap
	becomes(few, "little is kept")
	held := make([]byte, fewBytes)
	becomes(func(limit int64) bool { return limit > fewBytes/4*5 && limit < muchBytes }, "more is kept")
	goruntime.KeepAlive(held)
	held = make([]byte, muchBytes)
	becomes(func(limit int64) bool { return limit > muchBytes }, "much is kept")
	goruntime.KeepAlive(held)
	becomes(few, "little is kept again")
	unbound()
	goruntime.GC()
	if limit := debug.SetMemoryLimit(-1); limit != before {
		t.Errorf("the limit is %d behind a server, it was %d", limit, before)
	}
}

// TestStacksAreNoGarbage: memory that no collection gives back does not have it run all the time.
func TestStacksAreNoGarbage(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	const each = 32 << 10
	release := make(chan struct{})
	var parked, left sync.WaitGroup
	for range fewBytes / each {
		parked.Add(1)
		left.Go(func() {
			deep(each/2, &parked, release)
		})
	}
	parked.Wait()
	defer left.Wait()
	defer close(release)
	defer boundGarbage()()
	goruntime.GC()
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	for range 1000 { // half of what may come before a collection
		garbageMade = make([]byte, 16<<10)
	}
	goruntime.ReadMemStats(&after)
	if n := after.NumGC - before.NumGC; n > 4 {
		t.Errorf("%d collections for 16 MiB beside %d MiB of stacks", n, after.StackInuse>>20)
	}
}

var garbageMade []byte

// deep waits with so much on its stack, at least.
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

func TestGarbageOfWhoeverKnowsBetter(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "300")
			before := debug.SetMemoryLimit(-1)
			defer boundGarbage()()
			if limit := debug.SetMemoryLimit(-1); limit != before {
				t.Errorf("the limit is %d, it was %d", limit, before)
			}
		})
	}
}
