package sim

import (
	"fmt"
	"math/rand"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/batonrun/baton/runtime/data"
)

// Outcome is the result of a history.
type Outcome struct {
	Findings []Finding
	steps    []string // in order
	final    []*view
}

// Has reports whether a rule was broken.
func (o *Outcome) Has(rule Rule) bool {
	return slices.ContainsFunc(o.Findings, func(f Finding) bool { return f.Rule == rule })
}

// String returns the story: the steps in order, then the final state.
func (o *Outcome) String() string {
	lines := slices.Clone(o.steps)
	for _, v := range o.final {
		lines = append(lines, v.story()...)
	}
	return strings.Join(lines, "\n")
}

// Play plays a history and checks it.
func Play(t *testing.T, h *History) *Outcome {
	t.Helper()
	return inBubble(t, h, (*callers).play)
}

// PlayAlone plays a history of one caller without faults except crashes, and compares each answer and the state after
// it with the Model.
func PlayAlone(t *testing.T, h *History) *Outcome {
	t.Helper()
	return inBubble(t, h, (*callers).playAlone)
}

// PlayOn plays a history in real time on an empty PostgreSQL database, whose answers a bubble's time would not wait
// for. It is not reproducible.
func PlayOn(h *History, url string) *Outcome {
	c := newCallers(h, &database{url: url})
	c.play()
	return c.outcome()
}

func inBubble(t *testing.T, h *History, play func(*callers)) (o *Outcome) {
	t.Helper()
	db, err := newDatabase(h)
	if err != nil {
		t.Fatal(err)
	}
	ids := &chance{r: rand.New(rand.NewSource(int64(h.Seed)))}
	data.SetRand(ids)
	uuid.SetRand(ids)
	var c *callers
	defer func() {
		data.SetRand(nil)
		uuid.SetRand(nil)
		db.remove()
		if v := recover(); v != nil { // synctest reports a deadlock
			c.find(RuleHang, "%v\n%s", v, blocked())
		}
		o = c.outcome()
	}()
	synctest.Test(t, func(*testing.T) {
		c = newCallers(h, db)
		defer time.AfterFunc(12*time.Hour, func() { // heartbeats keep a deadlocked bubble going
			panic(fmt.Sprintf("%s: this comes to no end:\n%s\n%s\n%s", RuleHang, h, strings.Join(c.notes, "\n"), blocked()))
		}).Stop()
		play(c)
	})
	return nil
}

func (c *callers) outcome() *Outcome { return &Outcome{c.findings, c.notes, c.final} }

// chance is a random source that depends on the seed, for concurrent use.
type chance struct {
	mu sync.Mutex // guards the field below
	r  *rand.Rand
}

func (c *chance) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.r.Read(p)
}

// blocked returns the stacks of a bubble's deadlocked goroutines.
func blocked() string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var all []string
	for g := range strings.SplitSeq(string(buf), "\n\n") {
		head, _, _ := strings.Cut(g, "\n")
		if strings.Contains(head, "synctest bubble") {
			all = append(all, g)
		}
	}
	return strings.Join(all, "\n\n")
}

// play plays a history from start to end.
func (c *callers) play() {
	defer c.close()
	c.boots()
	var callers sync.WaitGroup
	for _, steps := range c.h.Callers {
		callers.Go(func() { c.perform(steps) })
	}
	callers.Wait()
	c.note("the callers are done")
	c.settle()
	c.endFaults()
	c.settle()
	if c.h.Seed%2 == 0 { // a new process must find the state that the old one has shown
		if p := c.server(); p != nil {
			c.restart(p)
		}
		c.settle()
	}
	p := c.server()
	if p == nil {
		return
	}
	if c.several() && p.able() && !c.h.troubled(Silent) { // it may still wait for a read
		c.playApart(p)
		c.settle()
	}
	(&checker{c, p}).audit()
}

// playApart stops all servers but one, which must execute the queued runs of all threads: the others would hide runs that it has forgotten.
func (c *callers) playApart(p *process) {
	for _, other := range c.serving() {
		if other != p {
			other.stop()
			defer other.wake()
		}
	}
	c.note("%s serves apart", p)
	const first = 900_000
	for n := range 2 * threadsEach * max(c.h.Users, 1) {
		c.stepAt(p, &Step{N: first + n, Do: doStart, Thread: 1 + n/2, Agent: alone, Script: Script{{Name: []string{"wait", "say"}[n%2]}}})
	}
	why := ""
	for range 16 { // less than a lease
		c.sleep(lease / 24)
		if _, why = p.restless(); why == "" {
			return
		}
	}
	c.find(RuleStuck, "%s alone: %s", p, why)
}
