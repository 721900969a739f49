package storage_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"testing"

	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/storagetest"
)

// A connection may be cut anywhere: wherever its first commits lose their answers, it ends, and its log is whole.
func TestRunOutlivesConnectionCutAnywhere(t *testing.T) {
	t.Parallel()
	p, through := storagetest.NewProxy(t, postgrestest.New(t))
	reg := new(host.Registry)
	if err := reg.Add(builtin.Plugins()...); err != nil {
		t.Fatal(err)
	}
	db := open(t, through)
	rt, err := runtime.New(runtime.Config{Store: db, Registry: reg, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	ann := runtime.MustCaller("default", "ann", runtime.RoleUser)
	for cut, clean := int64(1), 0; clean < 3; cut++ { // until nothing is left to cut
		name := fmt.Sprint("cut at ", cut)
		var run data.Run
		p.Left.Store(cut)
		retry(t, func() error {
			_, err := rt.StartRun(t.Context(), ann, runtime.StartRequest{
				Agent: "echo", ThreadID: name, RunID: name, BodyHash: name, Messages: []agui.Message{{Role: agui.RoleUser, Content: "hello"}},
			})
			if refusal, ok := errors.AsType[*runtime.Error](err); ok && refusal.Kind == runtime.KindUnavailable {
				return data.ErrUnavailable
			}
			return err
		})
		retry(t, func() (err error) {
			if run, err = db.Run(t.Context(), runKey(t, db, name)); err == nil && !run.Status.Final() {
				return data.ErrUnavailable // not yet
			}
			return err
		})
		if clean++; p.Left.Swap(math.MaxInt64) <= 0 {
			clean = 0
		}
		log := readLog(t, db, run.ThreadKey, 100)
		for i, ev := range log {
			if ev.ID != int64(i+1) {
				t.Errorf("%s: event %d is at place %d", name, ev.ID, i+1)
			}
		}
		if run.Status != data.Completed || run.ClosedEvent == 0 || run.ClosedEvent != int64(len(log)) {
			t.Errorf("%s: the run is %s, %v, with %d events, of which %d is the last", name, run.Status, run.Error, len(log), run.ClosedEvent)
		}
	}
}

// runKey is the key of ann's run of that name.
func runKey(t *testing.T, db *storage.DB, name string) (key int64) {
	t.Helper()
	retry(t, func() error {
		runs, err := db.RunsByName(t.Context(), "default", "ann", name)
		if err == nil && len(runs) == 1 {
			key = runs[0].Key
		}
		return err
	})
	return key
}
