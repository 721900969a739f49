package cmd

import (
	goruntime "runtime"
	"runtime/debug"
	"testing"
	"time"
)

// TestGarbageIsBoundByWhatIsKept: a server that keeps little stays within fewBytes, one that keeps much may have all of the
// machine's memory, and what the process had before is there again behind it.
func TestGarbageIsBoundByWhatIsKept(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(-1)
	unbound := boundGarbage()
	becomes := func(want func(limit int64) bool, what string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !want(debug.SetMemoryLimit(-1)); {
			if time.Now().After(deadline) {
				t.Fatalf("the limit is %d: %s", debug.SetMemoryLimit(-1), what)
			}
			goruntime.GC()
		}
	}
	few := func(limit int64) bool { return limit == fewBytes }
	becomes(few, "little is kept")
	held := make([]byte, fewBytes)
	becomes(func(limit int64) bool { return limit > fewBytes }, "much is kept")
	goruntime.KeepAlive(held)
	held = nil
	becomes(few, "little is kept again")
	unbound()
	goruntime.GC()
	if limit := debug.SetMemoryLimit(-1); limit != before {
		t.Errorf("the limit is %d behind a server, it was %d", limit, before)
	}
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
