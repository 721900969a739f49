package sim_test

import (
	"flag"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/runtime/sim"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/storagetest"
)

var (
	onPostgres = flag.Int("postgres", 12, "how many histories to play on PostgreSQL")
	atOnce     = flag.Int("at-once", 6, "how many of them at once")
)

// TestHistoriesOnPostgres plays random histories on PostgreSQL, in real time.
func TestHistoriesOnPostgres(t *testing.T) {
	if testing.Short() {
		return
	}
	cluster, empty := storagetest.Postgres(t), postgrestest.New(t)
	next := atomic.Uint64{}
	next.Store(*seed)
	var players sync.WaitGroup
	for range *atOnce {
		players.Go(func() { // ends with the last history
			for at := next.Add(1) - 1; at < *seed+uint64(*onPostgres); at = next.Add(1) - 1 {
				h := sim.Generate(at, 1) // others would not see that a process of this one has died
				cluster.WithCopy(t, empty, func(url string) {
					if o := sim.PlayOn(h, url); len(o.Findings) > 0 {
						t.Errorf("seed %d breaks %s: %s\n%s\n%s", at, o.Findings[0].Rule, o.Findings[0].Detail, h, o)
					}
				})
			}
		})
	}
	players.Wait()
}
