package sim_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/sim"
)

var (
	histories = flag.Int("histories", 500, "how many histories of a kind to play; unless it is given a million with BATON_SOAK=1, and 50 with -short")
	seed      = flag.Uint64("seed", 1, "the first history's seed")
	servers   = flag.Int("servers", 0, "how many processes serve each history at the same time; 0 means that the seed decides")
	sqlite    = flag.Bool("sqlite", false, "play all of them on SQLite files, not one in twenty")
	file      = flag.String("history", "", "play the history in this file and tell its story")
	shrink    = flag.String("shrink", "", "a rule: with -history, or -histories 1, look for the smallest history that breaks it")
	sweep     = flag.String("sweep", "", "a rule: with -history, look for the commit whose trouble breaks it")
)

// TestMain uses one processor and rare garbage collection, so that goroutines that become ready at once mostly run in
// the same order and a seed is reproducible.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(1000)
	os.Exit(m.Run())
}

// TestHistories plays random histories, which must not break a rule.
func TestHistories(t *testing.T) {
	n := uint64(count())
	for at := *seed; at < *seed+n; at++ {
		h := sim.Generate(at, processes())
		h.SQLite = h.SQLite || *sqlite
		if o := sim.Play(t, h); len(o.Findings) > 0 {
			fail(t, fmt.Sprintf("seed %d", at), h, &o.Findings[0])
			return
		}
		logProgress(t, at-*seed+1)
	}
}

// logProgress logs the progress of a long test.
func logProgress(t *testing.T, n uint64) {
	t.Helper()
	if n%10_000 == 0 {
		t.Logf("%d histories", n)
	}
}

// count returns the number of histories that a test plays.
func count() int {
	n := *histories
	if os.Getenv("BATON_SOAK") != "" && !given("histories") {
		n = 1_000_000
	}
	if !given("histories") && testing.Short() {
		n = min(n, 50)
	}
	return n
}

// processes returns how many processes serve each history, 0 if the seed decides. A file is of one.
func processes() int {
	if *sqlite {
		return 1
	}
	return *servers
}

func given(name string) (is bool) {
	flag.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

// fail shrinks a history that breaks a rule and reports the result.
func fail(t *testing.T, name string, h *sim.History, f *sim.Finding) {
	t.Helper()
	rule := f.Rule
	if *shrink != "" {
		rule = sim.Rule(*shrink)
	}
	small := sim.Shrink(t, h, rule, 400)
	o := sim.Play(t, small)
	if !o.Has(rule) { // depends on scheduling
		o = sim.Play(t, small)
	}
	t.Errorf("%s breaks %s: %s\n\nThe smallest history that does:\n%s\n%s", name, f.Rule, f.Detail, small, o)
}

// TestHistory plays the history in a file, if one is given.
func TestHistory(t *testing.T) {
	if *file == "" {
		return
	}
	h := load(t, *file)
	if *sweep != "" {
		sweepFaults(t, h)
		return
	}
	if *shrink != "" {
		h = sim.Shrink(t, h, sim.Rule(*shrink), 2000)
	}
	o := sim.Play(t, h)
	t.Logf("%s\n%s", h, o)
	for i := range o.Findings {
		t.Errorf("%s: %s", o.Findings[i].Rule, o.Findings[i].Detail)
	}
}

// sweepFaults tries one fault at each commit in turn.
func sweepFaults(t *testing.T, h *sim.History) {
	t.Helper()
	for _, trouble := range []sim.Trouble{sim.KillBefore, sim.KillAfter, sim.Lost, sim.Away, sim.Full, sim.Slow, sim.Silent, sim.Refused} {
		for commit := 1; commit <= 40; commit++ {
			h.Faults = []sim.Fault{{Commit: commit, Trouble: trouble}}
			if o := sim.Play(t, h); o.Has(sim.Rule(*sweep)) {
				t.Errorf("%s\n%s", h, o)
				return
			}
		}
	}
}

func load(t *testing.T, path string) *sim.History {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := sim.Parse(raw)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return h
}

// variants returns a stored history with other pauses and with its faults at neighbouring commits, because changes of
// the engine shift commits.
func variants(h *sim.History) []*sim.History {
	if h.Pads() {
		return []*sim.History{h} // megabytes are slow
	}
	seeds := uint64(2)
	if os.Getenv("BATON_SOAK") != "" {
		seeds = 8
	}
	var all []*sim.History
	for pauses := range seeds {
		for shift := -4; shift <= 4; shift++ {
			v := *h
			v.Seed += pauses
			v.SQLite = pauses == 0 && v.Servers < 2
			v.Faults = slices.Clone(h.Faults)
			for i := range v.Faults {
				if v.Faults[i].Commit > 0 {
					v.Faults[i].Commit += shift
				}
			}
			if shift == 0 || len(h.Faults) > 0 {
				all = append(all, &v)
			}
		}
	}
	return all
}

// TestKeptHistories plays the histories in testdata, one for each defect that was found and fixed.
func TestKeptHistories(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no histories in testdata: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			for _, h := range variants(load(t, path)) {
				if o := sim.Play(t, h); len(o.Findings) > 0 {
					t.Fatalf("%s: %s\n%s\n%s", o.Findings[0].Rule, o.Findings[0].Detail, h, o)
				}
			}
		})
	}
}

// TestSeed_IsReproducible plays histories twice and compares them. Only scheduling may differ, and it does on a busy machine, which
// interrupts goroutines. Without the seed none would happen again.
func TestSeed_IsReproducible(t *testing.T) {
	const n, least = 20, 4
	same := 0
	for at := range uint64(n) {
		first, second := sim.Play(t, sim.Generate(at, 0)), sim.Play(t, sim.Generate(at, 0))
		if first.String() == second.String() {
			same++
		}
	}
	t.Logf("%d of %d histories happened again exactly", same, n)
	if same < least {
		t.Errorf("only %d of %d histories happened again exactly", same, n)
	}
}

// TestHistory_ParsesItsString parses the result of String.
func TestHistory_ParsesItsString(t *testing.T) {
	for at := range uint64(200) {
		h := sim.Generate(at, 0)
		again, err := sim.Parse([]byte(h.String()))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := again.String(), h.String(); got != want {
			t.Fatalf("got %s\nwant %s", got, want)
		}
	}
}
