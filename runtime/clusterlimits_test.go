package runtime_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/postgrestest"
)

// mostRunning counts the RUNNING runs of names again and again until stop is called, which returns the most of each that it has
// seen.
func mostRunning(t *testing.T, url string, names ...data.Name) (stop func() map[data.Name]int) {
	t.Helper()
	db, err := storage.Open(t.Context(), storage.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	most, done := make(map[data.Name]int), make(chan struct{})
	var counting sync.WaitGroup
	counting.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-tick():
			}
			now, err := db.CountRunning(context.Background(), names)
			if err != nil {
				t.Error(err)
				return
			}
			for _, n := range names {
				most[n] = max(most[n], now[n])
			}
		}
	})
	return func() map[data.Name]int {
		close(done)
		counting.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		return most
	}
}

// All servers together execute no more runs of a project or a user than the limits allow, also while one of them dies, and as
// many.
func TestCluster_CapsHoldOverAllServers(t *testing.T) {
	url := postgrestest.New(t)
	brief := agent{"brief", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for i := range 4 {
			err := run.Do(ctx, fmt.Sprint("step ", i), nil, func(context.Context) error {
				<-time.After(10 * time.Millisecond)
				return nil
			})
			if err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{}, nil
	}}
	cfg := runtime.Config{Limits: runtime.Limits{RunsPerProject: 5, RunsPerUser: 3}}
	a, store := member(t, url, cfg, brief)
	b, _ := member(t, url, cfg, brief)
	c, _ := member(t, url, cfg, brief)
	project, ann, bob := data.Name{Project: "p"}, data.Name{Project: "p", User: "ann"}, data.Name{Project: "p", User: "bob"}
	stop := mostRunning(t, url, project, ann, bob)
	type started struct {
		who runtime.Caller
		runtime.Started
	}
	var mu sync.Mutex
	var runs []started
	var starting sync.WaitGroup
	for i, server := range []*bench{a, b, c} {
		starting.Go(func() {
			for j := range 20 {
				who := runtime.MustCaller("p", []string{"ann", "bob"}[j%2], runtime.RoleUser)
				s, err := server.StartRun(t.Context(), who, runtime.StartRequest{
					Agent: "brief", ThreadID: fmt.Sprint("thread ", i, " ", j), Messages: []agui.Message{{Role: agui.RoleUser, Content: "go"}},
				})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				runs = append(runs, started{who, s})
				mu.Unlock()
			}
		})
	}
	starting.Wait()
	wake := store.die()
	defer wake()
	for _, s := range runs {
		b.waitAs(s.who, s.RunID, runtime.Completed)
	}
	for of, most := range stop() {
		want := 3
		if of == project {
			want = 5
		}
		if most != want {
			t.Errorf("%v: %d runs at once, want %d", of, most, want)
		}
	}
}
