package members

import (
	"slices"
	"testing"
	"time"
)

// An instance has died once its row has stood still for a lease, over an unbroken chain of looks.
func TestWatch_JudgesByAnUnbrokenChainOfLooks(t *testing.T) {
	const lease = 4 * time.Second
	start := time.Now()
	// at is a look at a second that took some, and saw the rows.
	at := func(second, took float64, rows ...sighting) look {
		began := start.Add(time.Duration(second * float64(time.Second)))
		return look{began, began.Add(time.Duration(took * float64(time.Second))), rows}
	}
	x := func(n int64) sighting { return sighting{id: "x", commit: n, leased: n, expired: true} }
	valid := func(n int64) sighting { return sighting{id: "x", commit: n, leased: n} }
	every := func(from, to float64, row sighting) (looks []look) {
		for s := from; s <= to; s++ {
			looks = append(looks, at(s, 0.1, row))
		}
		return looks
	}
	for name, test := range map[string]struct {
		looks  []look
		dead   bool // after the last look, and not before
		locked bool
		gone   bool
	}{
		"a lease": {looks: every(0, 5, x(1)), dead: true},
		"not yet a lease since the end of a look": {looks: every(0, 4, x(1))},
		"it commits":                               {looks: slices.Concat(every(0, 3, x(1)), every(4, 7, x(2)))},
		"it renews its lease":                      {looks: append(every(0, 4, x(1)), at(5, 0.1, sighting{id: "x", commit: 1, leased: 2, expired: true}))},
		"it dies later":                            {looks: slices.Concat(every(0, 3, x(1)), every(4, 9, x(2))), dead: true},
		"its lease lasts longer":                   {looks: every(0, 12, valid(1))},
		"the clock was set back":                   {looks: every(0, 13, valid(1)), dead: true, locked: true},
		"its lease ends later":                     {looks: append(every(0, 6, valid(1)), at(7, 0.1, x(1))), dead: true},
		"the watcher was stopped":                  {looks: append(every(0, 2, x(1)), at(6, 0.1, x(1)))},
		"a lease after the watcher was stopped":    {looks: slices.Concat(every(0, 2, x(1)), every(6, 11, x(1))), dead: true},
		"nobody could write for three seconds":     {looks: append(every(0, 3, x(1)), at(4, 3.1, x(1)), at(7.2, 0.1, x(1)))},
		"a slow look does not count but is no gap": {looks: append(every(0, 3, x(1)), at(3.5, 2.4, x(1))), dead: false},
		"looks two seconds apart":                  {looks: []look{at(0, 0.1, x(1)), at(2, 0.1, x(1)), at(4.5, 0.1, x(1))}, dead: true},
		"its row is gone":                          {looks: append(every(0, 2, x(1)), at(3, 0.1)), gone: true},
		"its row is gone after a gap":              {looks: append(every(0, 2, x(1)), at(60, 0.1)), gone: true},
		"another one stands still":                 {looks: []look{at(0, 0.1, x(1), sighting{id: "y"}), at(3, 0.1, x(2), sighting{id: "y"}), at(5, 0.1, x(3), sighting{id: "y"})}},
	} {
		w := watch{lease: lease}
		for i, l := range test.looks {
			dead, gone := w.add(l)
			last := i == len(test.looks)-1
			if died := len(dead) > 0; died != (test.dead && last) && (last || !test.locked) {
				t.Errorf("%s: after look %d it has died: %t", name, i, died)
			}
			if last && len(dead) > 0 && dead[0].locked != test.locked {
				t.Errorf("%s: its sessions are ended: %t", name, dead[0].locked)
			}
			if gone != (test.gone && last) {
				t.Errorf("%s: after look %d one is gone: %t", name, i, gone)
			}
		}
	}
}

// An instance dies after three seconds without a sign of life once a newer one has its name.
func TestWatch_ReplacesAnInstanceByItsSuccessor(t *testing.T) {
	t.Parallel()
	start := time.Now()
	row := func(id, name string, n int64, started int) sighting {
		return sighting{id: id, name: name, commit: n, leased: n, started: start.Add(time.Duration(started) * time.Second)}
	}
	old := func(n int64) sighting { return row("old", "pod", n, 0) }
	next := func(n int64) sighting { return row("next", "pod", n, 1) }
	far := row("far", "other", 1, 0)
	each := func(looks ...[]sighting) [][]sighting { return looks }
	for what, test := range map[string]struct {
		looks [][]sighting // one each second
		dead  []string
	}{
		"a successor":         {each([]sighting{old(1), far}, []sighting{old(2), far}, []sighting{old(2), next(1), far}, []sighting{old(2), next(2), far}, []sighting{old(2), next(3), far}), []string{"old"}},
		"no successor":        {each([]sighting{old(1)}, []sighting{old(1)}, []sighting{old(1)}, []sighting{old(1)}, []sighting{old(1)}), nil},
		"a new watcher":       {each([]sighting{old(1), next(1)}, []sighting{old(1), next(2)}, []sighting{old(1), next(3)}, []sighting{old(1), next(4)}), []string{"old"}},
		"less than 3 seconds": {each([]sighting{old(1), next(1)}, []sighting{old(1), next(2)}, []sighting{old(1), next(3)}), nil},
		"the newer is silent": {each([]sighting{old(1), next(1)}, []sighting{old(2), next(1)}, []sighting{old(3), next(1)}, []sighting{old(4), next(1)}), nil},
		"two that live":       {each([]sighting{old(1), next(1)}, []sighting{old(2), next(2)}, []sighting{old(2), next(3)}, []sighting{old(3), next(4)}, []sighting{old(3), next(5)}), nil},
		"without names": {each([]sighting{row("a", "", 1, 0), row("b", "", 1, 1)}, []sighting{row("a", "", 1, 0), row("b", "", 2, 1)},
			[]sighting{row("a", "", 1, 0), row("b", "", 3, 1)}, []sighting{row("a", "", 1, 0), row("b", "", 4, 1)}), nil},
	} {
		w := watch{lease: 15 * time.Second}
		var dead []string
		for i, rows := range test.looks {
			l := look{began: start.Add(time.Duration(i) * 1010 * time.Millisecond), rows: rows}
			l.ended = l.began.Add(time.Millisecond)
			died, _ := w.add(l)
			for _, d := range died {
				dead = append(dead, d.id)
				if i < len(test.looks)-1 {
					t.Errorf("%s: %s has died after look %d", what, d.id, i)
				}
			}
		}
		if !slices.Equal(dead, test.dead) {
			t.Errorf("%s: %v have died", what, dead)
		}
	}
}
