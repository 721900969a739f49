package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/echo"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

func TestRecordIsEncodedOnceForAll(t *testing.T) {
	t.Parallel()
	on := make(chan struct{})
	rt := open(t, runtime.Config{}, agent{"echo", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		<-on // until it is watched
		return echo.Agent{}.Run(ctx, run)
	}})
	s := rt.start("main", "echo", "hello")
	watch, err := rt.Logs.ReadRun(t.Context(), s) // the watch keeps the thread's latest records in memory
	close(on)
	must(t, err)
	defer watch.Close()
	read := func() (all []*runtime.Record) {
		cur, err := rt.Logs.ReadRun(t.Context(), s)
		must(t, err)
		defer cur.Close()
		for {
			recs, err := cur.Next(t.Context())
			if errors.Is(err, io.EOF) {
				return all
			}
			must(t, err)
			all = append(all, recs...)
		}
	}
	first, again := read(), read()
	for i, rec := range first {
		if rec.ID == 0 { // made for its reader
			continue
		}
		for _, p := range []agui.Projection{agui.Seed, agui.AGUI0, agui.AGUI1, agui.Public} {
			event := rec.JSON(p)
			if event == nil {
				if rec.Type(p) != "" || agui.Project(rec.Event, p) != nil {
					t.Errorf("projection %d of %T is %q and nothing", p, rec.Event, rec.Type(p))
				}
				continue
			}
			var got struct{ Type agui.Type }
			if err := json.Unmarshal(event, &got); err != nil || got.Type != rec.Type(p) {
				t.Errorf("projection %d is %q, %v: %s", p, rec.Type(p), err, event)
			}
			if other := again[i].JSON(p); &other[0] != &event[0] {
				t.Errorf("projection %d of %s is encoded for each reader", p, got.Type)
			}
		}
	}
}
