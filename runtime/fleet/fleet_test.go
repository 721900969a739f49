package fleet_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/fleet"
)

// table is the table of servers.
type table struct {
	data.Members
	rows []data.Server
	told []data.Server
	err  error
}

func (t *table) Watch(context.Context) (data.Watched, error) {
	return data.Watched{Others: len(t.rows)}, nil
}

func (t *table) Tell(_ context.Context, s *data.Server) error {
	t.told = append(t.told, *s)
	return nil
}

func (t *table) Servers(context.Context, []string) ([]data.Server, error) { return t.rows, t.err }

// server returns the row of a server with a role that offers agents.
func server(t *testing.T, name, role string, agents ...string) data.Server {
	offer := make([]map[string]string, len(agents)) // nil agents: not known
	for i, a := range agents {
		offer[i] = map[string]string{"kind": "agent", "name": a}
	}
	about := map[string]any{"role": role, "offer": offer}
	if agents == nil {
		delete(about, "offer")
	}
	row := data.Server{Instance: name, Hash: fmt.Sprint(role, agents)}
	var err error
	if row.About, err = data.JSON(about); err != nil {
		t.Fatal(err)
	}
	return row
}

// watching returns a fleet that has looked at the servers in the table.
func watching(t *testing.T, store *table, offered ...plugins.Plugin) *fleet.Fleet {
	reg := new(host.Registry)
	if err := reg.Add(offered...); err != nil {
		t.Fatal(err)
	}
	f := fleet.New(t.Context(), fleet.Config{
		Shared: true, Members: store, Instance: "me", Log: slog.New(slog.DiscardHandler), Gone: time.Minute, Plugins: func() *host.Registry { return reg },
		Load: func() fleet.Load { return fleet.Load{} }, Stopping: func() bool { return false }, Wake: func() {},
	})
	if _, _, err := f.Watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestOthers_AreThoseThatMayExecute(t *testing.T) {
	t.Parallel()
	run, nodes := &data.RunHead{Agent: "writer"}, []plugins.Node{{Agent: "writer"}}
	for name, c := range map[string]struct {
		row data.Server
		may bool
	}{
		"it offers the agent":       {server(t, "a", "", "writer"), true},
		"it offers another one":     {server(t, "a", "", "reader"), false},
		"its offer is not known":    {server(t, "a", ""), true},
		"a gateway executes no run": {server(t, "a", fleet.Gateway, "writer"), false},
		"it stops":                  {func() data.Server { s := server(t, "a", "", "writer"); s.Draining = true; return s }(), false},
		"it is this one":            {server(t, "me", "", "writer"), false},
	} {
		if may, _ := watching(t, &table{rows: []data.Server{c.row}}).Others(run, nodes); may != c.may {
			t.Errorf("%s: %v", name, may)
		}
	}
}

func TestWatch_TellsWhatHasChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &table{rows: []data.Server{server(t, "a", "")}}
		f := watching(t, store)
		for range 10 {
			<-time.After(time.Second)
			if _, _, err := f.Watch(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if len(store.told) != 1 || store.told[0].About == nil {
			t.Errorf("it has told %+v", store.told)
		}
	})
}

// The others take a server without an offer for one that may execute any run.
func TestWatch_TellsNoOfferThatIsTooLong(t *testing.T) {
	t.Parallel()
	var all []plugins.Plugin
	for i := range 20_000 {
		all = append(all, plugins.AgentFunc(fmt.Sprint("agent", i), func(context.Context, *plugins.Run) error { return nil }))
	}
	store := new(table)
	watching(t, store, all...)
	if about := store.told[0].About; len(about) == 0 || bytes.Contains(about, []byte("agent1")) {
		t.Errorf("it has told %d bytes", len(about))
	}
}

func TestEndSweep_ReturnsRunsThatNoneOffersForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &table{rows: []data.Server{server(t, "a", "", "reader")}}
		f := watching(t, store)
		sweep := func() []data.RunHead {
			f.MayTake(t.Context(), &data.RunHead{Key: 7, Agent: "writer", Status: data.Queued})
			return f.EndSweep()
		}
		if over := sweep(); len(over) > 0 {
			t.Error("it fails a run at once")
		}
		<-time.After(time.Minute)
		store.err = data.ErrUnavailable
		if f.Meet(t.Context()) == nil {
			t.Error("the servers are unknown")
		}
		if over := sweep(); len(over) > 0 {
			t.Error("the time in which the servers were unknown has counted")
		}
		<-time.After(time.Minute)
		if over := sweep(); len(over) != 1 || over[0].Key != 7 {
			t.Errorf("over are %+v", over)
		}
		store.err, store.rows = nil, []data.Server{server(t, "a", "", "writer")}
		if err := f.Meet(t.Context()); err != nil {
			t.Fatal(err)
		}
		if over := sweep(); len(over) > 0 {
			t.Error("a server offers it now")
		}
	})
}
