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

// hints is the engine's link to the other servers of the database. A hint makes the engine look at the database earlier than it would
// anyway.
type hints struct {
	link     *bus.Link     // nil without a bus
	orphaned chan struct{} // has a value when runs may have lost their server

	unlinked context.Context // done once the last hints are to be sent
	unlink   context.CancelFunc
	linking  sync.WaitGroup
}

func newHints(abandoned context.Context, link *bus.Link) *hints {
	h := &hints{link: link, orphaned: make(chan struct{}, 1)}
	h.unlinked, h.unlink = context.WithCancel(abandoned)
	return h
}

// connect begins to send and receive hints. The server wants news of the threads and lists that wanted returns.
func (h *hints) connect(wanted func(kind bus.Kind, most int) []int64) {
	h.linking.Go(func() { h.link.Run(h.unlinked, wanted) }) // ends with disconnect, or when the engine is abandoned
}

// disconnect sends the last hints.
func (h *hints) disconnect() {
	h.unlink()
	h.linking.Wait()
}

// heed looks at the rows that hints of other servers are about.
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
	if h[bus.Changed].All {
		en.cfg.Feeds.Changes.RingAll()
	}
	for _, list := range h[bus.Changed].List() {
		en.cfg.Feeds.Changes.Ring(list)
	}
	if h[bus.Inbox].All || en.executesAny(h[bus.Inbox].List()) {
		en.countAppended(ctx)
	}
	free := en.admission.free()
	for _, thread := range h[bus.Queue].List() { // if they are All, the next pull finds them
		switch {
		case en.Stopping(), en.queue.stands(thread):
		case free > 0:
			en.lookAt(thread)
			free--
		default:
			en.queue.foundElsewhere(thread)
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
