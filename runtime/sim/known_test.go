package sim_test

import (
	"slices"

	"github.com/batonrun/baton/runtime/sim"
)

// known are the defects that the engine is known to have. Each has a history in testdata, which must break one of
// its rules, and random histories that do what it takes may break them too. Who mends a defect deletes its entry,
// and its history must then break nothing, like all others in testdata.
var known = []defect{
	{
		"cut-message-stands-behind-its-results", func(h *sim.History) bool { return h.Uses("open") > 0 && h.Breaks() || refuses(h) },
		[]sim.Rule{sim.RuleRows},
	},
}

// defect is what a history that does what it takes may break.
type defect struct {
	name  string
	takes func(*sim.History) bool
	rules []sim.Rule
}

// refuses reports whether the database refuses data, after which a run is read back from its log.
func refuses(h *sim.History) bool {
	return slices.ContainsFunc(h.Faults, func(f sim.Fault) bool { return f.Trouble == sim.Refused })
}

// tolerated reports whether a finding may come of a known defect.
func tolerated(h *sim.History, f *sim.Finding) bool {
	return slices.ContainsFunc(known, func(d defect) bool { return d.takes(h) && slices.Contains(d.rules, f.Rule) })
}
