package storage

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/batonrun/baton/storage/storagetest"
)

// BenchmarkRollUp adds 2 000 runs to the statistics and to the index of searches. It reports how long a commit waits for that at most.
func BenchmarkRollUp(b *testing.B) {
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(b.TempDir(), "baton.db"),
		"postgres": storagetest.Postgres(b).NewDatabase(b),
	} {
		db, err := Open(b.Context(), Config{URL: url, Migrate: true, Timeout: time.Hour, Lease: 24 * time.Hour})
		if err != nil {
			b.Fatal(err)
		}
		defer db.Close()
		fillRuns(b, db, 100_000)
		if _, err := db.write.ExecContext(b.Context(), `UPDATE run_inputs SET input_query = input_query || ' the quick brown fox ' || run_key * 7 || ' jumps over the lazy dog ' || run_key * 13 || ' and reads a few more words of a usual question'`); err != nil {
			b.Fatal(err)
		}
		first := 0
		b.Run(name, func(b *testing.B) {
			var waits []time.Duration
			for range b.N {
				if _, err := db.write.ExecContext(b.Context(), db.d.statement(`
INSERT INTO ended_runs (run_key, project_id, agent, status, code, first_generation, created_at, begun_at, finished_at)
SELECT key, project_id, agent, status, '', answered, created_at, created_at, created_at FROM runs WHERE key > ?::bigint AND key <= ?::bigint`, plain), first, first+2000); err != nil {
					b.Fatal(err)
				}
				first = (first + 2000) % 100_000
				done := make(chan error)
				go func() {
					_, err := db.RollUp(b.Context(), time.UnixMilli(0))
					done <- err
				}()
				for rolled := false; !rolled; {
					<-time.After(time.Millisecond)
					start := time.Now()
					db.writer.mu.Lock()
					waits = append(waits, time.Since(start))
					db.writer.mu.Unlock()
					select {
					case err := <-done:
						if err != nil {
							b.Fatal(err)
						}
						rolled = true
					default:
					}
				}
				db.drop()
			}
			slices.Sort(waits)
			for name, i := range map[string]int{"p50-ms": len(waits) / 2, "p90-ms": len(waits) * 9 / 10, "max-ms": len(waits) - 1} {
				b.ReportMetric(float64(waits[i].Microseconds())/1000, name)
			}
		})
	}
}
