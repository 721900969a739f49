package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// world is what all parts of a history in progress share: its time, its faults and its story. It runs in a synctest
// bubble, so pauses cost nothing and end in the order of their lengths, which depend on the seed.
type world struct {
	h      *History
	ledger *ledger
	began  time.Time
	ctx    context.Context
	stop   context.CancelFunc
	others sync.WaitGroup // readers and ending processes

	slow    bool          // one caller at a time, and workers without a deadline
	badData atomic.Bool   // the database has refused data of some run
	calmed  chan struct{} // closed when there are no more faults

	mu       sync.Mutex // guards the fields below
	commits  int
	reads    int
	takes    int
	rows     int
	naps     map[string]int
	releases map[int64]chan struct{} // by run; closed when it is released
	gone     map[string]time.Time    // runs whose deletion was acknowledged, and when
	skew     time.Duration
	gate     chan struct{} // closed to release staying workers
	calm     bool          // no more faults
	findings []Finding
	notes    []string
}

// Finding is a broken rule.
type Finding struct {
	Rule   Rule
	Detail string
}

func newWorld(h *History) *world {
	w := &world{h: h, began: time.Now(), naps: make(map[string]int), releases: make(map[int64]chan struct{}), gone: make(map[string]time.Time), gate: make(chan struct{}), calmed: make(chan struct{})}
	w.ctx, w.stop = context.WithCancel(context.Background())
	w.ledger = newLedger(w)
	return w
}

func (w *world) find(rule Rule, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := Finding{rule, fmt.Sprintf(format, args...)}
	w.findings = append(w.findings, f)
	w.notes = append(w.notes, fmt.Sprintf("%9s  !! %s: %s", w.now(), f.Rule, f.Detail))
}

// note adds a line to the story.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, fmt.Sprintf("%9s  %s", w.now(), fmt.Sprintf(format, args...)))
}

func (w *world) now() string { return time.Since(w.began).Round(time.Microsecond).String() }

// dbNow returns the database's clock, in milliseconds.
func (w *world) dbNow() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.skew).Truncate(time.Millisecond)
}

// endFaults ends the faults of the history.
func (w *world) endFaults() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.calm {
		close(w.calmed)
	}
	w.calm = true
}

// moveClock moves the database's clock.
func (w *world) moveClock(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.skew += by
}

// released returns a channel that is closed when a process releases the run.
func (w *world) released(run int64) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.releases[run] == nil {
		w.releases[run] = make(chan struct{})
	}
	return w.releases[run]
}

// noteReleased records that processes have released runs.
func (w *world) noteReleased(runs []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, run := range runs {
		if released := w.releases[run]; released != nil {
			close(released)
			delete(w.releases, run)
		}
	}
}

// noteGone records that a run's deletion was acknowledged.
func (w *world) noteGone(run string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone[run] = time.Now()
}

// isGone reports whether a run was deleted long ago. It may be another one in histories that use a name again.
func (w *world) isGone(run string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok := w.gone[run]
	return ok && time.Since(at) > soon && !w.h.reusesNames()
}

// stays returns a channel that releases staying workers.
func (w *world) stays() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gate
}

// release lets staying workers go on, now and later.
func (w *world) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.gate)
	w.gate = make(chan struct{})
}

// patience is the limit for waiting.
func (w *world) patience(d time.Duration) time.Duration {
	if w.slow {
		return d * 3600
	}
	return d
}

func (w *world) sleep(d time.Duration) {
	<-time.After(d) // the bubble's time passes when all goroutines wait
}

// nap pauses for some hundred microseconds, which depend on the seed, the key and the number of its pauses.
func (w *world) nap(at ...any) {
	what := fmt.Sprint(at...)
	w.sleep(time.Microsecond + time.Duration(w.chance(what)%400_000))
}

// chance returns a number that depends on the seed, the text and how often it was used.
func (w *world) chance(what string) uint64 {
	w.mu.Lock()
	w.naps[what]++
	n := w.naps[what]
	w.mu.Unlock()
	sum := fnv.New64a()
	_, _ = sum.Write(strconv.AppendInt(append(strconv.AppendUint(nil, w.h.Seed, 10), what...), int64(n), 10))
	x := sum.Sum64()
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 32
	return x
}

// choose returns one of n alternatives.
func (w *world) choose(n int, why []any) int {
	if n < 2 {
		return 0
	}
	return int(w.chance(fmt.Sprint("choose", why)) % uint64(n))
}

// fault counts a commit or read and returns its number and its fault.
func (w *world) fault(counter *int, number func(*Fault) int) (int, Trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*counter++
	for i := range w.h.Faults {
		if f := &w.h.Faults[i]; !w.calm && number(f) == *counter {
			return *counter, f.Trouble
		}
	}
	return *counter, ""
}
