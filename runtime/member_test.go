package runtime_test

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
)

// dying is a store of a server that can be stopped like a process: its writes wait until it is woken, and it is found dead at once.
type dying struct {
	runtime.Store
	fence  func(instance string) // as another server does when the lease has expired
	joined string
	asleep atomic.Pointer[chan struct{}]
	drains atomic.Int64 // calls of Drain
	left   atomic.Int64 // commits until it dies by itself, if positive
	looked atomic.Int64 // looks for runs whose server has ended
}

func (d *dying) die() (wake func()) {
	woken := make(chan struct{})
	d.asleep.Store(&woken)
	d.fence(d.joined)
	return func() { d.asleep.Store(nil); close(woken) }
}

func (d *dying) sleep() {
	if woken := d.asleep.Load(); woken != nil {
		<-*woken
	}
}

// ill is the part Members of a dying store.
type ill struct {
	data.Members
	*dying
}

func (d *dying) Members() data.Members { return ill{d.Store.Members(), d} }

func (d ill) Join(ctx context.Context, instance, addr string) error {
	d.joined = instance
	return d.Members.Join(ctx, instance, addr)
}

func (d *dying) Commit(ctx context.Context, n int64, b *data.Batch) error {
	if d.left.Load() > 0 && d.left.Add(-1) == 0 {
		d.die()
	}
	d.sleep()
	return d.Store.Commit(ctx, n, b)
}

func (d ill) Renew(ctx context.Context, n int64) error {
	d.sleep()
	return d.Members.Renew(ctx, n)
}

func (d ill) KeepLease(ctx context.Context) error {
	d.sleep()
	return d.Members.KeepLease(ctx)
}

func (d *dying) Queue() data.Queue { return countedQueue{d.Store.Queue(), d} }

// countedQueue is the part Queue of a dying store.
type countedQueue struct {
	data.Queue
	store *dying
}

func (q countedQueue) Orphans(ctx context.Context, after int64, limit int) ([]data.RunHead, error) {
	defer q.store.looked.Add(1)
	return q.Queue.Orphans(ctx, after, limit)
}

func (d ill) Drain(ctx context.Context) (bool, error) {
	d.drains.Add(1)
	return d.Members.Drain(ctx)
}

func (d ill) Watch(ctx context.Context) (data.Watched, error) {
	d.sleep()
	return d.Members.Watch(ctx)
}

// member starts a server of a cluster on the database.
func member(t *testing.T, url string, cfg runtime.Config, plugs ...plugins.Plugin) (*bench, *dying) {
	t.Helper()
	db := opened(t, url)
	return memberOf(t, url, db, db, cfg, plugs...)
}

// opened opens the database of a cluster. No lease expires on a busy machine.
func opened(t *testing.T, url string) *storage.DB {
	t.Helper()
	db, err := storage.Open(context.Background(), storage.Config{URL: url, Migrate: true, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// memberOf is member with a store around its database.
func memberOf(t *testing.T, url string, db *storage.DB, around runtime.Store, cfg runtime.Config, plugs ...plugins.Plugin) (*bench, *dying) {
	t.Helper()
	m := &dying{Store: around, fence: func(instance string) {
		execute(t, url, "UPDATE instances SET fenced = TRUE, ended = 'crashed' WHERE id = '"+instance+"'")
	}}
	if cfg.Bus == nil {
		cfg.Bus = db.Registry.Bus()
	}
	cfg.Store, cfg.Registry, cfg.Heartbeat = m, new(host.Registry), 50*time.Millisecond
	cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	cfg.Calm = cmp.Or(cfg.Calm, -1) // crashes come early here
	cfg.StepTimeout, cfg.Patience, cfg.Drain = time.Hour, time.Hour, cmp.Or(cfg.Drain, time.Millisecond)
	if err := cfg.Registry.Add(plugs...); err != nil {
		t.Fatal(err)
	}
	rt, err := runtime.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, path: url, cfg: cfg, store: m, Runtime: rt}
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.down)
	return b, m
}

// stranger is another instance of the cluster's database, which does nothing by itself.
func stranger(t *testing.T, url string) *storage.DB {
	t.Helper()
	db := opened(t, url)
	t.Cleanup(func() { _ = db.Close() })
	if err := db.Members().Join(t.Context(), "stranger", ""); err != nil {
		t.Fatal(err)
	}
	return db
}
