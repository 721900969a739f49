// Package offer has the plugins that a server offers: a compiled registry, and the replaced ones that live runs still use.
package offer

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/graph"
)

// Offer is a compiled registry. A live run holds one from its claim until it ends or waits, so that it uses the same plugins
// throughout, and they stay open.
type Offer struct {
	Plugins *host.Registry
	Graphs  *graph.Set
	holders int // live runs that hold it, guarded by Offers.mu
}

// Offers holds the current offer and the earlier ones that are still held.
type Offers struct {
	log     *slog.Logger
	gateway bool // which executes nothing
	changed func()

	mu      sync.Mutex // guards the fields below, and Offer.holders
	now     *Offer
	earlier map[*Offer]bool
}

// New compiles the registry's workflows and tool schemas. changed is called once another registry is current.
func New(reg *host.Registry, gateway bool, log *slog.Logger, changed func()) (*Offers, error) {
	first, err := compile(reg, gateway)
	return &Offers{log: log, gateway: gateway, changed: changed, now: first, earlier: make(map[*Offer]bool)}, err
}

// compile compiles a registry. A gateway executes nothing, and leaves the plugins unstarted.
func compile(reg *host.Registry, gateway bool) (*Offer, error) {
	if gateway {
		reg.KeepUnstarted()
	}
	graphs, err := graph.Compile(reg)
	if err != nil {
		return nil, err
	}
	return &Offer{Plugins: reg, Graphs: graphs}, nil
}

// Current returns the current offer without holding it.
func (o *Offers) Current() *Offer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now
}

// Hold returns the current offer, which stays open until it is released.
func (o *Offers) Hold() *Offer {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now.holders++
	return o.now
}

// Release releases an offer. An offer that was replaced is closed once its last holder has released it.
func (o *Offers) Release(held *Offer) {
	o.mu.Lock()
	held.holders--
	over := held.holders == 0 && o.earlier[held]
	if over {
		delete(o.earlier, held)
	}
	o.mu.Unlock()
	if over {
		o.shut(held)
	}
}

// Plugins returns the current registry.
func (o *Offers) Plugins() *host.Registry { return o.Current().Plugins }

// Definition returns the definition of the workflow that a run of a project stores at its start, or nil.
func (o *Offers) Definition(project, workflow string) json.RawMessage {
	own := o.Current()
	if _, ok := own.Plugins.For(project).Workflow(workflow); !ok {
		return nil
	}
	return own.Graphs.Workflow(workflow).Definition
}

// Concurrency returns an agent's own limit of executing runs, 0 for none.
func (o *Offers) Concurrency(agent string) int {
	if a, ok := o.Plugins().Agent(agent); ok {
		return a.Info().Concurrency
	}
	return 0
}

// Replace compiles a registry, starts its new plugins, and makes it the current one. Live runs keep their registry, which is
// closed when the last of them has ended or waits. When Replace fails, nothing has changed and the started plugins of reg
// are closed. It must be called by one goroutine at a time.
func (o *Offers) Replace(ctx context.Context, reg *host.Registry) error {
	next, err := compile(reg, o.gateway)
	if err != nil {
		return err
	}
	for _, open := range o.open() { // plugins that are offered again may already be started
		reg.Share(open.Plugins)
	}
	if err := reg.Start(ctx); err != nil {
		o.shut(next)
		return err
	}
	o.mu.Lock()
	last := o.now
	o.now, o.earlier[last] = next, true
	last.holders++
	o.mu.Unlock()
	o.Release(last)
	o.changed()
	return nil
}

// Close closes all plugins, also replaced ones that abandoned workers still use. After ctx is done they end by force.
func (o *Offers) Close(ctx context.Context) error {
	var errs []error
	for _, open := range o.open() {
		errs = append(errs, open.Plugins.Close(ctx))
	}
	o.mu.Lock()
	clear(o.earlier)
	o.mu.Unlock()
	return errors.Join(errs...)
}

// open returns the offers with open plugins: the earlier ones, and the current one at the end.
func (o *Offers) open() []*Offer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append(slices.Collect(maps.Keys(o.earlier)), o.now)
}

// shut closes the plugins that only this offer needs.
func (o *Offers) shut(old *Offer) {
	if err := old.Plugins.Close(context.Background()); err != nil {
		o.log.Error("plugins could not be closed", "error", err)
	}
}
