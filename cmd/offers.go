package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/config/document"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/plugins/declared"
	"github.com/batonrun/baton/plugins/declared/makers"
	"github.com/batonrun/baton/plugins/host"
)

// offers holds the plugins that a program offers: its own, those that the settings file declares, and the assistant.
type offers struct {
	list      []plugins.Plugin // all of them
	own       []plugins.Plugin // the program's
	declared  *declared.Set
	assistant plugins.Agent // nil when the environment has no model
}

// assistant is the name of the agent that exists when the environment has the key of a model provider.
const assistant = "assistant"

// offers reads the declarations in the settings file. Declarations that have not changed since before keep their plugins.
func (p *Program) offers(cfg config.Config, before offers) (offers, error) {
	own := p.ownPlugins(cfg)
	o := offers{list: slices.Clone(own), own: own}
	if cfg.Path != "" {
		var err error
		database, private := cfg.Private()
		o.declared, err = declared.Load(cfg.Path, declared.Config{Offered: own, Makers: makers.All(private...), Database: database}, before.declared)
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
		if o.assistant, err = makers.Assistant(toolNames(own)); err != nil {
			return o, &usageError{fmt.Errorf("assistant: %w", err)}
		}
	}
	if o.assistant != nil {
		o.list = append(o.list, o.assistant)
	}
	return o, nil
}

// withOrigins returns all plugins with their origins.
func (o offers) withOrigins() []plugins.Plugin {
	list := make([]plugins.Plugin, 0, len(o.list))
	builtIn := host.Origin{Kind: host.OriginBuiltIn}
	all := builtin.Plugins()
	for _, own := range o.own {
		if contains(all, own) {
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

// opened returns the configuration of a server with these offers.
func (o offers) opened(ctx context.Context, cfg config.Config, log *slog.Logger) (baton.Config, error) {
	set, err := opened(ctx, cfg, log, o.withOrigins())
	set.Prices, set.Budgets = o.spending()
	return set, err
}

// spending returns the declared prices and budgets.
func (o offers) spending() (baton.Prices, []baton.Budget) {
	declared, list := o.declared.Spending()
	prices := baton.Prices{Currency: declared.Currency, Models: make(map[string]baton.Price)}
	for name, p := range declared.Models {
		prices.Models[name] = baton.Price(*p)
	}
	budgets := make([]baton.Budget, len(list))
	for i, b := range list {
		budgets[i] = baton.Budget(b)
	}
	return prices, budgets
}

// contains reports whether list has a plugin with the same name and type.
func contains(list []plugins.Plugin, p plugins.Plugin) bool {
	return slices.ContainsFunc(list, func(t plugins.Plugin) bool {
		return reflect.TypeOf(t) == reflect.TypeOf(p) && t.Info().Name == p.Info().Name
	})
}

// ownPlugins returns the program's plugins, with accounts without the test plugins.
func (p *Program) ownPlugins(cfg config.Config) []plugins.Plugin {
	if cfg.Auth.Mode == config.AuthNone || cfg.Auth.TestPlugins {
		return p.Plugins
	}
	trials := builtin.Trials()
	return slices.DeleteFunc(slices.Clone(p.Plugins), func(own plugins.Plugin) bool { return contains(trials, own) })
}

// toolNames returns the names of the tools in list, except the test tools.
func toolNames(list []plugins.Plugin) (names []string) {
	for _, plugin := range list {
		if t, ok := plugin.(plugins.Tool); ok && !slices.Contains([]string{"sleep", "stubborn", "fail"}, t.Info().Name) {
			names = append(names, t.Info().Name)
		}
	}
	return names
}

// reloader replaces a server's plugins with those that the settings file declares now.
type reloader struct {
	program *Program
	server  *baton.Server
	load    func() (config.Config, error)
	started config.Config // the settings that the server was started with
	began   offers        // likewise
	now     offers
	log     *slog.Logger
}

// watch reloads the file for each value of again, until stop ends. A file with errors changes nothing.
func (r *reloader) watch(stop context.Context, again <-chan os.Signal) {
	for {
		select {
		case <-stop.Done():
			return
		case <-again:
		}
		if err := r.reload(stop); err != nil {
			for line := range strings.Lines(err.Error()) {
				r.log.Error("failed to reload", "error", strings.TrimSpace(line), "help", "the server keeps its plugins; correct the file, see baton check, and reload it again")
			}
		}
	}
}

func (r *reloader) reload(ctx context.Context) error {
	cfg, err := r.load()
	if err == nil {
		err = r.present(cfg.Path)
	}
	if err != nil {
		return err
	}
	next, err := r.program.offers(cfg, r.now)
	if err != nil {
		return err
	}
	begun, err := r.begin(ctx, next)
	if err == nil {
		err = r.server.Replace(ctx, next.withOrigins()...)
	}
	if err != nil {
		for _, p := range begun {
			err = errors.Join(err, p.Close(ctx))
		}
		return err
	}
	prices, budgets := next.spending()
	if startedPrices, startedBudgets := r.began.spending(); cfg.String() != r.started.String() || !reflect.DeepEqual(prices, startedPrices) || !reflect.DeepEqual(budgets, startedBudgets) {
		r.log.Warn("changed settings take effect at the next start", "file", cfg.Path)
	}
	c := next.declared.Since(r.now.declared)
	r.renew(next)
	r.log.Info("reloaded", "file", cfg.Path, "added", c.Added, "changed", c.Changed, "removed", c.Removed)
	r.now = next
	return nil
}

// successor is a plugin with a program that can be started before the program of the earlier plugin is ended.
type successor interface {
	plugins.Plugin
	plugins.Closer
	Begin(ctx context.Context) error
}

// begin starts the programs of changed declarations. It fails if one cannot be started: the earlier plugin would be ended for one that
// does not work. The caller closes the result of begin unless it is offered. A gateway starts no programs.
func (r *reloader) begin(ctx context.Context, next offers) (begun []successor, err error) {
	if r.started.Role == config.RoleGateway {
		return nil, nil
	}
	for _, p := range next.list {
		of, ok := p.(successor)
		if !ok || !slices.ContainsFunc(r.now.list, func(before plugins.Plugin) bool { return before != p && before.Info().Name == p.Info().Name }) {
			continue
		}
		begun = append(begun, of)
		if err := of.Begin(ctx); err != nil {
			return begun, fmt.Errorf("%s: its changed program cannot be started, and the earlier one goes on: %w", p.Info().Name, err)
		}
	}
	return begun, nil
}

// present fails if the settings file is empty, or is not there although it was there at the start. A file that is being replaced is,
// for a moment; without settings there would be no agents.
func (r *reloader) present(path string) error {
	if path = cmp.Or(path, r.started.Path); path == "" {
		return nil
	}
	root, err := document.Read(path)
	if err == nil && root == nil {
		err = fmt.Errorf("%s is empty", path)
	}
	return err
}

// renew starts the programs that both offers have anew, because their code may have changed. A program that cannot be started goes on as it
// is. It waits for all.
func (r *reloader) renew(next offers) {
	var renewing sync.WaitGroup
	defer renewing.Wait()
	for _, p := range next.list {
		program, ok := p.(interface{ Renew() error })
		if !ok || !slices.ContainsFunc(r.now.list, func(before plugins.Plugin) bool { return before == p }) {
			continue
		}
		renewing.Go(func() {
			if err := program.Renew(); err != nil {
				r.log.Error("program not started anew", "program", p.Info().Name, "error", err, "help", "the earlier process goes on; correct the program, and reload again")
			}
		})
	}
}
