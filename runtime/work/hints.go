package work

import (
	"context"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/runtime/tail"
)

// heedEvery is the pause after hints were heeded. Those that arrive meanwhile are heeded together.
const heedEvery = 10 * time.Millisecond

// hints is the engine's link to the other servers of the database. What they tell is looked up in the database, as it would be without
// them, only earlier.
type hints struct {
	link     *bus.Link     // nil without a bus
	orphaned chan struct{} // has a value when runs may have lost their server

	ctx     context.Context
	stop    context.CancelFunc
	linking sync.WaitGroup
}

func newHints(abandoned context.Context, link *bus.Link) *hints {
	h := &hints{link: link, orphaned: make(chan struct{}, 1)}
	h.ctx, h.stop = context.WithCancel(abandoned)
	return h
}

// begin connects the server. It wants news of the threads that wanted returns.
func (h *hints) begin(wanted func(most int) []int64) {
	h.linking.Go(func() { h.link.Run(h.ctx, wanted) })
}

// end waits until the last hints are sent.
func (h *hints) end() {
	h.stop()
	h.linking.Wait()
}

// heed looks at what other servers have told.
func (en *Engine) heed(h bus.Hints) {
	ctx, cancel := context.WithTimeout(en.abandoned, lookTimeout)
	defer cancel()
	if h[bus.Cancel].All || en.executesAny(h[bus.Cancel].List()) {
		en.cancelAsked(ctx)
	}
	if h[bus.Look].All {
		_ = en.cfg.Logs.Look(ctx, tail.All) // as in look
	} else {
		_ = en.cfg.Logs.LookAt(ctx, h[bus.Look].List())
	}
	if h[bus.Inbox].All || en.executesAny(h[bus.Inbox].List()) {
		en.countAppended(ctx)
	}
	free := en.admission.free()
	for _, thread := range h[bus.Queue].List() { // all of them wait for the next pull
		if free > 0 && !en.Stopping() && !en.queue.stands(thread) {
			en.lookAt(thread)
			free--
		}
	}
	if h[bus.Orphans].All {
		select {
		case en.orphaned <- struct{}{}:
		default:
		}
	}
}

// executesAny reports whether this instance executes one of the runs.
func (en *Engine) executesAny(runs []int64) bool {
	for _, key := range runs {
		if en.liveRun(key) != nil {
			return true
		}
	}
	return false
}
