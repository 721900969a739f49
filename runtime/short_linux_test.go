package runtime_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage/postgrestest"
)

var brief = agent{"tokens", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	w := run.Text()
	for range 3 {
		if _, err := io.WriteString(w, "abcd"); err != nil {
			return agui.WorkerOutput{}, err
		}
	}
	return agui.WorkerOutput{}, w.Close()
}}

// BenchmarkShortRuns measures the cost of starting and ending a run, each on a new thread: for runs of three tokens,
// the CPU time of this process, which includes the reader, and that of PostgreSQL's processes.
func BenchmarkShortRuns(b *testing.B) {
	for _, kind := range []string{"sqlite", "postgres"} {
		for _, atOnce := range []int{1, 32} {
			b.Run(fmt.Sprintf("%s/%d", kind, atOnce), func(b *testing.B) {
				url, spent := "sqlite:"+filepath.Join(b.TempDir(), "baton.db"), func() time.Duration { return 0 }
				if kind == "postgres" {
					url = postgrestest.New(b)
					spent = backends(b, url)
				}
				rt, _ := startedOn(b, url, brief)
				play := func(name string, n int) {
					var wg sync.WaitGroup
					slots := make(chan struct{}, atOnce)
					for i := range n {
						slots <- struct{}{}
						wg.Go(func() {
							defer func() { <-slots }()
							oneRun(b, rt, fmt.Sprint(name, i))
						})
					}
					wg.Wait()
				}
				play("warm", 2*atOnce)
				b.ReportAllocs()
				b.ResetTimer()
				own, theirs := clock(b, unix.CLOCK_PROCESS_CPUTIME_ID), spent()
				play("t", b.N)
				b.StopTimer()
				perRun := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(b.N) }
				b.ReportMetric(perRun(clock(b, unix.CLOCK_PROCESS_CPUTIME_ID)-own), "cpu-µs/run")
				if kind == "postgres" {
					b.ReportMetric(perRun(spent()-theirs), "server-µs/run")
				}
			})
		}
	}
}

// backends returns a function that measures the CPU time of the PostgreSQL processes that serve a database.
func backends(b *testing.B, url string) func() time.Duration {
	b.Helper()
	db, err := sql.Open("postgres", url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	return func() (sum time.Duration) {
		b.Helper()
		rows, err := db.QueryContext(b.Context(), `
SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		if err != nil {
			b.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var pid int32
			if err := rows.Scan(&pid); err != nil {
				b.Fatal(err)
			}
			sum += clock(b, ^pid<<3|2) // the kernel's id of a process's clock
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			b.Fatal(err)
		}
		return sum
	}
}

func clock(b *testing.B, id int32) time.Duration {
	b.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
