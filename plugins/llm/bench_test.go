package llm_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/attach"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/blob"
)

var local = runtime.MustCaller("default", "local", runtime.RoleUser)

// bench is a runtime with a database that survives it.
type bench struct {
	*runtime.Runtime
	t     testing.TB
	path  string
	plugs []plugins.Plugin
	cfg   runtime.Config
	close func() error
}

func open(tb testing.TB, plugs ...plugins.Plugin) *bench {
	tb.Helper()
	b := &bench{t: tb, path: filepath.Join(tb.TempDir(), "baton.db"), plugs: plugs}
	b.cfg = runtime.Config{Limits: runtime.Limits{MaxAttempts: 10}, Log: slog.New(slog.NewTextHandler(tb.Output(), nil))}
	b.cfg.Calm = -1 // crashes come early here
	b.up()
	tb.Cleanup(func() { b.down(b.Runtime, b.close) })
	return b
}

func (b *bench) up() {
	b.t.Helper()
	b.cfg.Registry = new(host.Registry)
	if err := b.cfg.Registry.Add(b.plugs...); err != nil {
		b.t.Fatal(err)
	}
	db, err := storage.Open(context.Background(), storage.Config{URL: "sqlite:" + b.path, Migrate: true})
	if err != nil {
		b.t.Fatal(err)
	}
	b.cfg.Store, b.cfg.Ledger, b.close = db, db.Counter, db.Close
	b.cfg.Attachments = attach.New(attach.Config{Records: db.Attachments, Blobs: blob.NewDirectory(filepath.Join(filepath.Dir(b.path), "files"))})
	if b.Runtime, err = runtime.New(b.cfg); err != nil {
		b.t.Fatal(err)
	}
	if err := b.Start(context.Background()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) down(rt *runtime.Runtime, closeStore func() error) {
	if err := errors.Join(rt.Shutdown(context.Background()), closeStore()); err != nil && !errors.Is(err, runtime.ErrFenced) {
		b.t.Error(err)
	}
}

// crash makes a second runtime take over the database, as if the first had died.
func (b *bench) crash() {
	b.t.Helper()
	old, closeStore := b.Runtime, b.close
	b.up()
	_, _ = old.StartRun(context.Background(), local, runtime.StartRequest{Agent: "assistant"})
	<-old.Member.Fenced()
	b.t.Cleanup(func() {
		_ = old.Shutdown(context.Background())
		_ = closeStore()
	})
}

func (b *bench) start(content string, tools ...agui.Tool) runtime.Started {
	b.t.Helper()
	return b.startOn("main", content, tools...)
}

func (b *bench) startOn(thread, content string, tools ...agui.Tool) runtime.Started {
	b.t.Helper()
	s, err := b.StartRun(context.Background(), local, runtime.StartRequest{
		Agent: "assistant", ThreadID: thread, Messages: []agui.Message{{Role: agui.RoleUser, Content: content}}, Tools: tools,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *bench) wait(run string, want ...runtime.Status) runtime.Run {
	b.t.Helper()
	deadline := time.Now().Add(10 * time.Minute)
	for {
		r, err := b.Runs.Get(context.Background(), local, run)
		if err != nil {
			b.t.Fatal(err)
		}
		if slices.Contains(want, r.Status) {
			return r
		}
		if r.Status.Final() || time.Now().After(deadline) {
			b.t.Fatalf("run %s is %s (%+v), want %v", run, r.Status, r.Error, want)
		}
		<-time.After(time.Millisecond)
	}
}

// modelCalls returns the calls of models in a run.
func (b *bench) modelCalls(run string) []runtime.ModelCall {
	b.t.Helper()
	page, err := b.Runs.ModelCalls(context.Background(), local, run, "", 100)
	if err != nil {
		b.t.Fatal(err)
	}
	return page.Rows
}

// events returns the log of the thread main after checking its order.
func (b *bench) events() []agui.Event {
	b.t.Helper()
	return b.eventsOf("main")
}

func (b *bench) eventsOf(thread string) (evs []agui.Event) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	th, err := b.Threads.Get(ctx, local, thread)
	if err != nil {
		b.t.Fatal(err)
	}
	cur, err := b.Logs.Read(ctx, th, 0, false)
	if err != nil {
		b.t.Fatal(err)
	}
	defer cur.Close()
	var v agui.Verifier
	for {
		recs, err := cur.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			b.t.Fatal(err)
		}
		for _, r := range recs {
			if err := v.Add(r.Event); err != nil {
				b.t.Errorf("event %d: %v", r.ID, err)
			}
			evs = append(evs, r.Event)
		}
	}
	if open := v.Unanswered(); len(open) > 0 {
		b.t.Errorf("the log leaves calls without a result: %q", open)
	}
	return evs
}

// assistant returns the agent under test.
func assistant(t *testing.T, m *model) *llm.Agent {
	return newAgent(t, llm.Config{Model: m, Tools: []string{"*"}})
}

func hang(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}
