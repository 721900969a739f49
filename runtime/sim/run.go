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

// Outcome is what came of a history.
type Outcome struct {
	Findings []Finding
	Story    []string // what happened, in order, and what was left of it
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

// String tells the story.
func (o *Outcome) String() string { return strings.Join(o.Story, "\n") }

// Play lets a history happen and checks it.
func Play(t *testing.T, h *History) *Outcome {
	t.Helper()
	return inBubble(t, h, (*world).play)
}

// PlayAlone lets a history of one caller happen, with nothing going wrong but crashes, and holds each answer and
// what is there then against the Model.
func PlayAlone(t *testing.T, h *History) *Outcome {
	t.Helper()
	return inBubble(t, h, (*world).playAlone)
}

// PlayOn lets a history happen in real time on the empty PostgreSQL database of a URL: a bubble's time would not wait for its
// answers. It does not happen again exactly.
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
		if v := recover(); v != nil { // synctest says that all wait for ever
			w.find(RuleHang, "%v\n%s", v, blocked())
		}
		o = &Outcome{w.findings, w.notes}
	}()
	synctest.Test(t, func(*testing.T) {
		w = newWorld(h, db)
		defer time.AfterFunc(12*time.Hour, func() { // heartbeats keep a bubble going whose play does not
			panic(fmt.Sprintf("%s: this comes to no end:\n%s\n%s\n%s", RuleHang, h, strings.Join(w.notes, "\n"), blocked()))
		}).Stop()
		play(w)
	})
	return nil
}

// chance is random bytes that a seed gives, for many to read.
type chance struct {
	mu sync.Mutex // guards the field below
	r  *rand.Rand
}

func (c *chance) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.r.Read(p)
}

// blocked is where the goroutines of a bubble wait that has come to no end.
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

// play is a history from its beginning to its end.
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
	if w.h.Seed%2 == 0 { // what a new process finds is what the old one has shown
		w.restart()
		w.settle()
	}
	p := w.server()
	if p == nil {
		return
	}
	if w.h.Does(doTakeover) {
		w.sleep(20 * time.Second) // what was replaced has had its time to notice
	}
	w.audit(p)
}

func (w *world) boots() {
	w.shift <- struct{}{}
	_ = w.serve()
	<-w.shift
}

// close ends all that goes on.
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
