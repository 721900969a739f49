package sim_test

import (
	"testing"

	"github.com/batonrun/baton/runtime/sim"
)

// TestModel plays histories of one caller: each answer, and what is there then, is what the model says.
func TestModel(t *testing.T) {
	n, met := count(), 0
	for at := *seed; at < *seed+uint64(n); at++ {
		h := sim.GenerateAlone(at)
		h.SQLite = h.SQLite || *sqlite
		o := sim.PlayAlone(t, h)
		for i := range o.Findings {
			if f := &o.Findings[i]; !tolerated(h, f) {
				t.Fatalf("seed %d: %s: %s\n%s\n%s", at, f.Rule, f.Detail, h, o)
			}
		}
		if len(o.Findings) > 0 {
			met++
		}
	}
	t.Logf("%d histories, of which %d met known defects", n, met)
}
