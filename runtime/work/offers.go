package work

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/graph"
)

// offer is what a registry offers, compiled. A live run holds one from when it was claimed until it ends or waits, so
// that it meets the same plugins throughout, and they are not closed under it.
type offer struct {
	plugins *host.Registry
	graphs  *graph.Set
	holders int // live runs that hold it, guarded by offers.mu
}

// offers are the offer in force and those before it that are still held.
type offers struct {
	mu      sync.Mutex // guards the fields below and what an offer says it guards
	now     *offer
	earlier map[*offer]bool
}

func newOffer(reg *host.Registry) (*offer, error) {
	graphs, err := graph.Compile(reg)
	if err != nil {
		return nil, err
	}
	return &offer{plugins: reg, graphs: graphs}, nil
}

// current returns the offer in force, for a look at it.
func (o *offers) current() *offer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now
}

// hold returns the offer in force, which is not closed until it is released.
func (o *offers) hold() *offer {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now.holders++
	return o.now
}

// release lets go of an offer, and reports whether nothing needs it any more: then it is the caller's to close.
func (o *offers) release(held *offer) (over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	held.holders--
	over = held.holders == 0 && o.earlier[held]
	if over {
		delete(o.earlier, held)
	}
	return over
}

// replace puts an offer in force and returns the one before, if nothing needs it any more.
func (o *offers) replace(next *offer) (over *offer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := o.now
	o.now = next
	if last.holders == 0 {
		return last
	}
	o.earlier[last] = true
	return nil
}

// open returns the offers whose plugins are not closed: the earlier ones, and the one in force at the end.
func (o *offers) open() []*offer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append(slices.Collect(maps.Keys(o.earlier)), o.now)
}

// all returns and forgets the earlier offers, with the one in force at the end.
func (o *offers) all() []*offer {
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []*offer
	for e := range o.earlier {
		list = append(list, e)
	}
	o.earlier = map[*offer]bool{}
	return append(list, o.now)
}

// Plugins is the registry in force.
func (en *Engine) Plugins() *host.Registry { return en.offers.current().plugins }

// Replace compiles a registry, starts what is new in it, and puts it in force. Runs that are live keep theirs, which is
// closed when the last of them has ended or waits. When Replace fails nothing has changed, and what was started of reg
// is closed. It is called by one goroutine at a time.
func (en *Engine) Replace(ctx context.Context, reg *host.Registry) error {
	next, err := newOffer(reg)
	if err != nil {
		return err
	}
	for _, o := range en.offers.open() { // what is offered again may still be at work
		reg.Share(o.plugins)
	}
	if err := reg.Start(ctx); err != nil {
		en.shut(next)
		return err
	}
	if over := en.offers.replace(next); over != nil {
		en.shut(over)
	}
	en.queue.nudge() // caps may be others
	return nil
}

// Close closes the plugins, also those that were replaced and that abandoned workers still use.
func (en *Engine) Close() error {
	var errs []error
	for _, o := range en.offers.all() {
		errs = append(errs, o.plugins.Close())
	}
	return errors.Join(errs...)
}

// shut closes what nobody else needs of an offer.
func (en *Engine) shut(o *offer) {
	if err := o.plugins.Close(); err != nil {
		en.log.Error("plugins could not be closed", "error", err)
	}
}

// releaseOffer is called once the last worker and tool of a live run has returned.
func (l *live) releaseOffer() {
	if l.en.offers.release(l.offer) {
		l.en.shut(l.offer)
	}
}
