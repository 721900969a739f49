package storage_test

import (
	"fmt"
	"testing"
)

// BenchmarkCommit measures a committer under load: a batch of events of several threads, and with rows also the start
// and end of some runs. One op is one event.
func BenchmarkCommit(b *testing.B) {
	for name, open := range databases {
		for _, c := range []struct{ events, threads, runs int }{
			{200, 50, 0}, {500, 50, 0}, {1000, 50, 0}, {500, 500, 0}, {1, 1, 0}, {500, 50, 3},
		} {
			b.Run(fmt.Sprintf("%s/events=%d/threads=%d/runs=%d", name, c.events, c.threads, c.runs), func(b *testing.B) {
				db := joined(b, open(b))
				log := newLog(b, db, c.threads)
				commits, runs := 0, 0
				b.ResetTimer()
				for done := 0; done < b.N; done += c.events {
					runs += c.runs
					log.commit(b, log.batch(c.events), log.startAndFinish(b, c.runs)...)
					commits++
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(commits), "µs/commit")
				if runs > 0 {
					b.ReportMetric(float64(runs)/b.Elapsed().Seconds(), "runs/s")
				}
			})
		}
	}
}

// BenchmarkEvents reads a log in pages of 500. One op is one event.
func BenchmarkEvents(b *testing.B) {
	stored := 100_000
	if testing.Short() {
		stored /= 100
	}
	for name, open := range databases {
		for _, batch := range []int{50, 500} { // one event of each thread per commit, and ten
			b.Run(fmt.Sprintf("%s/perRow=%d", name, batch/50), func(b *testing.B) {
				db := joined(b, open(b))
				log := newLog(b, db, 50)
				for range stored / batch {
					log.commit(b, log.batch(batch))
				}
				b.ReportAllocs()
				b.ResetTimer()
				for done, after, n := 0, int64(0), 0; done < b.N; {
					page, err := db.Events(b.Context(), log.threads[n%50], after, 500)
					must(b, err)
					done += len(page)
					if len(page) < 500 {
						n, after = n+1, 0
					} else {
						after = page[len(page)-1].ID
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}

// BenchmarkDecide commits decisions as runs of new threads begin and end: some at once in one batch, and as many in the
// next, beside others that go on. One op is one run.
func BenchmarkDecide(b *testing.B) {
	for name, open := range databases {
		for _, c := range []struct{ n, beside int }{{1, 1}, {32, 1}, {32, 1000}} {
			n := c.n
			b.Run(fmt.Sprintf("%s/at once=%d/beside=%d", name, n, c.beside), func(b *testing.B) {
				log := newLog(b, joined(b, open(b)), c.beside)
				b.ReportAllocs()
				b.ResetTimer()
				for done := 0; done < b.N; done += n {
					for _, batch := range log.startAndEnd(b, n) {
						log.n++
						must(b, log.db.Commit(b.Context(), log.n, batch))
					}
				}
			})
		}
	}
}
