package cmd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/plugins/declared"
	"github.com/batonrun/baton/plugins/declared/makers"
	"github.com/batonrun/baton/plugins/host"
)

// offers is what a program offers: its own plugins, what its file declares, and the assistant that the environment has
// a model for.
type offers struct {
	list      []plugins.Plugin // all of it
	own       []plugins.Plugin // the program's
	declared  *declared.Set
	assistant plugins.Agent // nil when the environment has no model
}

// assistant is the agent that the environment has a model for.
const assistant = "assistant"

// offers reads the file again that the settings came from. What has not changed since before stays the same plugin.
func (p *Program) offers(cfg config.Config, before offers) (offers, error) {
	own := p.own(cfg)
	o := offers{list: slices.Clone(own), own: own}
	if cfg.Path != "" {
		var err error
		o.declared, err = declared.Load(cfg.Path, declared.Config{Offered: own, Makers: makers.All()}, before.declared)
		if err != nil {
			return o, &usageError{err}
		}
		o.list = append(o.list, o.declared.Plugins()...)
	}
	if slices.ContainsFunc(o.list, func(p plugins.Plugin) bool { return p.Info().Name == assistant }) {
		return o, nil
	}
	if o.assistant = before.assistant; o.assistant == nil {
		var err error
		if o.assistant, err = makers.Assistant(tools(own)); err != nil {
			return o, &usageError{fmt.Errorf("assistant: %w", err)}
		}
	}
	if o.assistant != nil {
		o.list = append(o.list, o.assistant)
	}
	return o, nil
}

// from is all that is offered, with where it comes from.
func (o offers) from() []plugins.Plugin {
	list := make([]plugins.Plugin, 0, len(o.list))
	builtIn := host.Origin{Kind: host.OriginBuiltIn}
	all := builtin.Plugins()
	for _, own := range o.own {
		if among(all, own) {
			own = host.From{Plugin: own, Origin: builtIn}
		}
		list = append(list, own)
	}
	list = append(list, o.declared.From()...)
	if o.assistant != nil {
		list = append(list, host.From{Plugin: o.assistant, Origin: builtIn})
	}
	return list
}

// among reports whether list has a plugin of the same name and type.
func among(list []plugins.Plugin, p plugins.Plugin) bool {
	return slices.ContainsFunc(list, func(t plugins.Plugin) bool {
		return reflect.TypeOf(t) == reflect.TypeOf(p) && t.Info().Name == p.Info().Name
	})
}

// own are the program's plugins, with accounts but for those that are there to try things out.
func (p *Program) own(cfg config.Config) []plugins.Plugin {
	if cfg.Auth.Mode == config.AuthNone || cfg.Auth.TestPlugins {
		return p.Plugins
	}
	trials := builtin.Trials()
	return slices.DeleteFunc(slices.Clone(p.Plugins), func(own plugins.Plugin) bool { return among(trials, own) })
}

// tools are the names of the tools among plugins, but for those that are there to try things out.
func tools(list []plugins.Plugin) (names []string) {
	for _, plugin := range list {
		if t, ok := plugin.(plugins.Tool); ok && !slices.Contains([]string{"sleep", "stubborn", "fail"}, t.Info().Name) {
			names = append(names, t.Info().Name)
		}
	}
	return names
}

// reloader has a server offer what its file declares, anew whenever it is told to.
type reloader struct {
	program *Program
	server  *baton.Server
	load    func() (config.Config, error)
	started config.Config // the settings that the server has
	now     offers
	log     *slog.Logger
}

// follow reads the file again for each value of again, until stop ends. What is wrong with it changes nothing.
func (r *reloader) follow(stop context.Context, again <-chan os.Signal) {
	for {
		select {
		case <-stop.Done():
			return
		case <-again:
		}
		if err := r.reload(stop); err != nil {
			for line := range strings.Lines(err.Error()) {
				r.log.Error("not reloaded", "error", strings.TrimSpace(line))
			}
		}
	}
}

func (r *reloader) reload(ctx context.Context) error {
	cfg, err := r.load()
	if err != nil {
		return err
	}
	next, err := r.program.offers(cfg, r.now)
	if err != nil {
		return err
	}
	if err := r.server.Replace(ctx, next.from()...); err != nil {
		return err
	}
	if cfg.String() != r.started.String() {
		r.log.Warn("settings have changed, which takes effect at the next start", "file", cfg.Path)
	}
	c := next.declared.Since(r.now.declared)
	r.log.Info("reloaded", "file", cfg.Path, "added", c.Added, "changed", c.Changed, "removed", c.Removed)
	r.now = next
	return nil
}
