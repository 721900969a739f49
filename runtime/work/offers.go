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

// offer is a compiled registry. A live run holds one from its claim until it ends or waits, so that it uses the same plugins
// throughout, and they stay open.
type offer struct {
	plugins *host.Registry
	graphs  *graph.Set
	holders int // live runs that hold it, guarded by offers.mu
}

// offers holds the current offer and the earlier ones that are still held.
type offers struct {
	mu      sync.Mutex // guards the fields below, and offer.holders
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

// current returns the current offer without holding it.
func (o *offers) current() *offer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now
}

// hold returns the current offer, which stays open until it is released.
func (o *offers) hold() *offer {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now.holders++
	return o.now
}

// release releases an offer. It reports whether the offer was replaced and has no other holder: the caller then closes it.
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

// replace makes next the current offer and returns the previous one if it has no holders.
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

// open returns the offers with open plugins: the earlier ones, and the current one at the end.
func (o *offers) open() []*offer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append(slices.Collect(maps.Keys(o.earlier)), o.now)
}

// all returns and forgets the earlier offers, with the current one at the end.
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

// Plugins returns the current registry.
func (en *Engine) Plugins() *host.Registry { return en.offers.current().plugins }

// Replace compiles a registry, starts its new plugins, and makes it the current one. Live runs keep their registry, which is
// closed when the last of them has ended or waits. When Replace fails, nothing has changed and the started plugins of reg
// are closed. It must be called by one goroutine at a time.
func (en *Engine) Replace(ctx context.Context, reg *host.Registry) error {
	next, err := newOffer(reg)
	if err != nil {
		return err
	}
	for _, o := range en.offers.open() { // plugins that are offered again may already be started
		reg.Share(o.plugins)
	}
	if err := reg.Start(ctx); err != nil {
		en.shut(next)
		return err
	}
	if over := en.offers.replace(next); over != nil {
		en.shut(over)
	}
	en.queue.nudge() // limits may have changed
	return nil
}

// Close closes all plugins, also replaced ones that abandoned workers still use.
func (en *Engine) Close() error {
	var errs []error
	for _, o := range en.offers.all() {
		errs = append(errs, o.plugins.Close())
	}
	return errors.Join(errs...)
}

// shut closes the plugins that only this offer needs.
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
