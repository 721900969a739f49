package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage"
)

var tokens = agent{"tokens", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	w := run.Text(agui.RoleAssistant, "")
	for range 200 {
		if _, err := io.WriteString(w, "abcd"); err != nil {
			return agui.WorkerOutput{}, err
		}
	}
	return agui.WorkerOutput{}, w.Close()
}}

// BenchmarkRuns measures runs of 200 tokens from StartRun to the end of their logs, some at a time.
func BenchmarkRuns(b *testing.B) {
	for _, atOnce := range []int{1, 50} {
		b.Run(fmt.Sprint(atOnce), func(b *testing.B) {
			ctx := context.Background()
			db, err := storage.Open(ctx, storage.Config{URL: "sqlite:" + filepath.Join(b.TempDir(), "baton.db"), Migrate: true})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			reg := new(plugins.Registry)
			if err := reg.Add(tokens); err != nil {
				b.Fatal(err)
			}
			rt, err := runtime.New(runtime.Config{Store: db, Registry: reg, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			if err := rt.Start(ctx); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			slots := make(chan struct{}, atOnce)
			for i := range b.N {
				slots <- struct{}{}
				wg.Go(func() {
					defer func() { <-slots }()
					oneRun(b, rt, fmt.Sprint("t", i))
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)*206/b.Elapsed().Seconds(), "events/s")
			if err := rt.Shutdown(ctx); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func oneRun(b *testing.B, rt *runtime.Runtime, thread string) {
	b.Helper()
	ctx := context.Background()
	s, err := rt.StartRun(ctx, local, runtime.StartRequest{
		Agent: "tokens", ThreadID: thread, Messages: []agui.Message{{Role: agui.RoleUser, Content: "go"}},
	})
	if err != nil {
		b.Error(err)
		return
	}
	cur, err := rt.ReadRun(ctx, s)
	if err != nil {
		b.Error(err)
		return
	}
	defer cur.Close()
	n := 0
	for {
		recs, err := cur.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			b.Error(err)
			return
		}
		for _, r := range recs {
			n += len(r.SSE(agui.AGUI1))
		}
	}
}
