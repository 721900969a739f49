package sim

import (
	"encoding/json"
	"slices"
	"testing"
)

// Shrink returns the smallest history that it finds, in at most tries plays, that still breaks the rule. It drops
// callers, steps, faults and ops, and then simplifies the rest.
func Shrink(t *testing.T, h *History, rule Rule, tries int) *History {
	t.Helper()
	for smaller := true; smaller; {
		smaller = false
		all := cuts(h)
		for i := 0; i < len(all); {
			next := h.clone()
			if !all[i](next) {
				i++
				continue
			}
			if tries--; tries < 0 {
				return h
			}
			if !Play(t, next).Has(rule) {
				i++
				continue
			}
			h, smaller = next, true
			all = cuts(h) // the next cut has moved to this index
		}
	}
	return h
}

func (h *History) clone() *History {
	raw, err := json.Marshal(h)
	if err != nil {
		panic(err)
	}
	next, err := Parse(raw)
	if err != nil {
		panic(err)
	}
	return next
}

// cuts returns the ways to make a history smaller, the largest first. A cut reports whether it changed anything.
func cuts(h *History) []func(*History) bool {
	var all []func(*History) bool
	for i := range h.Callers {
		all = append(all, func(h *History) bool {
			h.Callers = slices.Delete(h.Callers, i, i+1)
			return len(h.Callers) > 0
		})
	}
	for i := range h.Faults {
		all = append(all, func(h *History) bool {
			h.Faults = slices.Delete(h.Faults, i, i+1)
			return true
		})
	}
	for i := range h.Callers {
		for j := range slices.Backward(h.Callers[i]) {
			all = append(all, func(h *History) bool {
				h.Callers[i] = slices.Delete(h.Callers[i], j, j+1)
				return true
			})
		}
	}
	if h.Servers > 1 {
		all = append(all, func(h *History) bool { h.Servers--; return true })
	}
	if h.Queue > 0 {
		all = append(all, func(h *History) bool { h.Queue = 0; return true })
	}
	if h.Slots > 0 {
		all = append(all, func(h *History) bool { h.Slots = 0; return true })
	}
	if h.PerProject > 0 || h.PerUser > 0 {
		all = append(all, func(h *History) bool { h.PerProject, h.PerUser = 0, 0; return true })
	}
	if h.Room != nil {
		all = append(all, func(h *History) bool { h.Room = nil; return true })
		for _, bound := range h.Room.bounds() {
			all = append(all, func(h *History) bool { *bound(h.Room) = 0; return true })
		}
	}
	for i := range h.Callers {
		for j := range h.Callers[i] {
			all = append(all, stepCuts(&h.Callers[i][j], func(h *History) *Step { return &h.Callers[i][j] })...)
		}
	}
	return all
}

// stepCuts returns the ways to simplify a step.
func stepCuts(s *Step, of func(*History) *Step) []func(*History) bool {
	var all []func(*History) bool
	for n := range s.Script.count(func(Op) bool { return true }) {
		all = append(all, func(h *History) bool {
			s := of(h)
			s.Script, _ = without(s.Script, n)
			return true
		})
	}
	change := func(really bool, f func(*Step)) {
		if really {
			all = append(all, func(h *History) bool { f(of(h)); return true })
		}
	}
	change(s.Times > 0, func(s *Step) { s.Times = 0 })
	change(s.Key > 0, func(s *Step) { s.Key = 0 })
	change(s.State, func(s *Step) { s.State = false })
	change(s.Rewind, func(s *Step) { s.Rewind = false })
	change(s.Multitask != "", func(s *Step) { s.Multitask = "" })
	change(s.Pad != 0, func(s *Step) { s.Pad = 0 })
	change(s.Choice != 0, func(s *Step) { s.Choice = 0 })
	change(s.Thread > 1, func(s *Step) { s.Thread = 1 })
	change(s.After > 0, func(s *Step) { s.After = 0 })
	return all
}

// without returns a script without its n-th op, counted with nested ones. The op's body takes its place.
func without(s Script, n int) (Script, int) {
	var left Script
	for i := range s {
		op := s[i]
		if n == 0 {
			n--
			left = append(left, op.Body...)
			continue
		}
		n--
		if op.Body != nil {
			var body Script
			body, n = without(op.Body, n)
			op.Body = body
		}
		left = append(left, op)
	}
	return left, n
}
