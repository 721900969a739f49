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

	"github.com/batonrun/baton/runtime/work"
)

// Outcome is the result of a history.
type Outcome struct {
	Findings []Finding
	Story    []string // the steps in order, then the final state
}

// Has reports whether a rule was broken.
func (o *Outcome) Has(rule Rule) bool { return slices.Contains(o.Rules(), rule) }

// Rules returns the rules that were broken, each once.
func (o *Outcome) Rules() []Rule {
	var rules []Rule
	for i := range o.Findings {
		if !slices.Contains(rules, o.Findings[i].Rule) {
			rules = append(rules, o.Findings[i].Rule)
		}
	}
	return rules
}

// String returns the story.
func (o *Outcome) String() string { return strings.Join(o.Story, "\n") }

// Play plays a history and checks it.
func Play(t *testing.T, h *History) *Outcome {
	t.Helper()
	return inBubble(t, h, (*world).play)
}

// PlayAlone plays a history of one caller without faults except crashes, and compares each answer and the state after
// it with the Model.
func PlayAlone(t *testing.T, h *History) *Outcome {
	t.Helper()
	return inBubble(t, h, (*world).playAlone)
}

// PlayOn plays a history in real time on an empty PostgreSQL database, whose answers a bubble's time would not wait
// for. It is not reproducible.
func PlayOn(h *History, url string) *Outcome {
	w := newWorld(h, &database{url: url})
	w.play()
	return &Outcome{w.findings, w.notes}
}

func inBubble(t *testing.T, h *History, play func(*world)) (o *Outcome) {
	t.Helper()
	db, err := newDatabase(h)
	if err != nil {
		t.Fatal(err)
	}
	ids := &chance{r: rand.New(rand.NewSource(int64(h.Seed)))}
	work.SetRand(ids)
	uuid.SetRand(ids)
	var w *world
	defer func() {
		work.SetRand(nil)
		uuid.SetRand(nil)
		db.remove()
		if v := recover(); v != nil { // synctest reports a deadlock
			w.find(RuleHang, "%v\n%s", v, blocked())
		}
		o = &Outcome{w.findings, w.notes}
	}()
	synctest.Test(t, func(*testing.T) {
		w = newWorld(h, db)
		defer time.AfterFunc(12*time.Hour, func() { // heartbeats keep a deadlocked bubble going
			panic(fmt.Sprintf("%s: this comes to no end:\n%s\n%s\n%s", RuleHang, h, strings.Join(w.notes, "\n"), blocked()))
		}).Stop()
		play(w)
	})
	return nil
}

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
func (w *world) play() {
	defer w.close()
	w.boots()
	var callers sync.WaitGroup
	for _, steps := range w.h.Callers {
		callers.Go(func() { w.perform(steps) })
	}
	callers.Wait()
	w.note("the callers are done")
	w.settle()
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	w.settle()
	if w.h.Seed%2 == 0 { // a new process must find the state that the old one has shown
		w.restart()
		w.settle()
	}
	p := w.server()
	if p == nil {
		return
	}
	if w.h.Does(doTakeover) {
		w.sleep(20 * time.Second) // replaced processes have had time to notice
	}
	w.audit(p)
}

func (w *world) boots() {
	w.shift <- struct{}{}
	_ = w.serve()
	<-w.shift
}

// close ends all processes and readers.
func (w *world) close() {
	w.mu.Lock()
	w.calm = true
	p := w.cur
	w.mu.Unlock()
	if p != nil && p.rt != nil {
		w.end(p)
	}
	w.stop()
	w.others.Wait()
	w.sleep(20 * time.Second) // the bubble's time ends with this goroutine, and there may be stalls
	for _, p := range w.all {
		if p.store != nil {
			_ = p.store.Close()
		}
	}
}
