package ownership_test

import (
	"context"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/sqlitetest"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/transporttest"
)

// A parked run belongs to no connection: neither the end of the one that started it nor another request of its user cancels it, also once it
// goes on.
func TestTie_EndsWhenTheRunIsParked(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"sqlite": "sqlite:" + sqlitetest.New(t), "postgres": postgrestest.New(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			s := &server{transporttest.Start(t, transporttest.Config{
				Database: url,
				Runtime:  runtime.Config{Limits: runtime.Limits{Grace: time.Second}},
				Streams:  transports.StreamConfig{Grace: 50 * time.Millisecond},
				Plugins: []plugins.Plugin{plugins.AgentFunc("sleeper", func(ctx context.Context, run *plugins.Run) error {
					if err := run.Sleep(ctx, 4*time.Second); err != nil {
						return err
					}
					select {
					case <-gate:
					case <-ctx.Done():
					}
					return nil
				})},
			})}
			started := s.start(local, runtime.StartRequest{Agent: "sleeper", ThreadID: "main", RunID: "a"})
			tie := s.Streams.Ownership.TieRun(peer(false), local, nil, started)
			s.Await("a", runtime.Waiting)
			next := s.start(local, runtime.StartRequest{Agent: "sleeper", ThreadID: "main", RunID: "b"})
			s.drop(tie, started)
			s.OutlastGrace()
			s.Await("a", runtime.Waiting)
			s.Await("a", runtime.Running)
			s.OutlastGrace()
			s.Await("a", runtime.Running)
			close(gate)
			s.Await("a", runtime.Completed)
			s.Await(next.RunID, runtime.Waiting)
		})
	}
}
