package sim_test

import (
	"testing"

	"github.com/batonrun/baton/runtime/sim"
)

// Each reply and the state after it agree with the model.
func TestModel(t *testing.T) {
	n := uint64(count())
	for at := *seed; at < *seed+n; at++ {
		h := sim.GenerateAlone(at, processes())
		h.SQLite = h.SQLite || *sqlite
		if o := sim.PlayAlone(t, h); len(o.Findings) > 0 {
			t.Fatalf("seed %d: %s: %s\n%s\n%s", at, o.Findings[0].Rule, o.Findings[0].Detail, h, o)
		}
		logProgress(t, at-*seed+1)
	}
}
