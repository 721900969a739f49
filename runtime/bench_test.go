package runtime_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/retention"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/postgrestest"
)

// saying returns an agent that says some tokens.
func saying(tokens int) agent {
	return agent{"tokens", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		w := run.Text()
		for range tokens {
			if _, err := io.WriteString(w, "abcd"); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{}, w.Close()
	}}
}

var tokens = saying(200)

// counted is a store that counts its commits.
type counted struct {
	*storage.DB
	commits atomic.Int64
}

func (c *counted) Commit(ctx context.Context, n int64, b *data.Batch) error {
	c.commits.Add(1)
	return c.DB.Commit(ctx, n, b)
}

// BenchmarkRuns measures runs from StartRun to the end of their logs, some at a time: the time, the commits, the CPU time of this
// process and of PostgreSQL, the bytes that are written to the WAL, and the size of a finished run's rows without its events.
func BenchmarkRuns(b *testing.B) {
	for _, kind := range []string{"sqlite", "postgres"} {
		for _, said := range []int{1, 200} {
			for _, atOnce := range []int{1, 50} {
				b.Run(fmt.Sprintf("%s/tokens=%d/at once=%d", kind, said, atOnce), func(b *testing.B) {
					url := "sqlite:" + filepath.Join(b.TempDir(), "baton.db")
					if kind == "postgres" {
						url = postgrestest.New(b)
					}
					store := new(counted)
					rt, _ := startedWith(b, url, saying(said), func(db *storage.DB) runtime.Store {
						store.DB = db
						return store
					})
					m := newMeter(b, url)
					runsAtOnce(b, rt, "warm", 50, atOnce)
					rows := m.rows(b)
					commits, cpu, written := store.commits.Load(), m.cpu(b), m.written(b)
					b.ResetTimer()
					runsAtOnce(b, rt, "t", b.N, atOnce)
					b.StopTimer()
					perRun := func(v float64, unit string) { b.ReportMetric(v/float64(b.N), unit) }
					perRun(float64(store.commits.Load()-commits), "commits/run")
					perRun(float64((m.cpu(b) - cpu).Microseconds()), "CPU-µs/run")
					perRun(float64(m.written(b)-written)/1e3, "written-kB/run")
					perRun(float64(m.rows(b)-rows)/1e3, "rows-kB/run")
					if m.postgres {
						b.ReportMetric(float64(m.number(b, hotUpdates)), "HOT-%-of-updates")
					}
				})
			}
		}
	}
}

// runsAtOnce makes n runs, each in a thread of its own.
func runsAtOnce(b *testing.B, rt *runtime.Runtime, thread string, n, atOnce int) {
	b.Helper()
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			oneRun(b, rt, fmt.Sprint(thread, i))
		})
	}
	wg.Wait()
}

// meter measures the cost of a database.
type meter struct {
	db       *sql.DB
	postgres bool
}

func newMeter(b *testing.B, url string) *meter {
	b.Helper()
	driver, address := "sqlite", strings.TrimPrefix(url, "sqlite:")
	if address == url {
		driver = "postgres"
	}
	db, err := sql.Open(driver, address)
	must(b, err)
	db.SetMaxOpenConns(1)
	b.Cleanup(func() { _ = db.Close() })
	return &meter{db, driver == "postgres"}
}

func (m *meter) number(b *testing.B, query string) (n int64) {
	b.Helper()
	must(b, m.db.QueryRowContext(b.Context(), query).Scan(&n))
	return n
}

// written returns the bytes that were written to the WAL, on SQLite with its checkpoints.
func (m *meter) written(b *testing.B) (n int64) {
	b.Helper()
	if m.postgres {
		return m.number(b, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
	}
	text, _ := os.ReadFile("/proc/self/io")
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "wchar: %d", &n); err == nil {
			break
		}
	}
	return n
}

// hotUpdates is the share of updates that have written no index. A session reports its updates at most once a second.
const hotUpdates = `SELECT round(COALESCE(100.0 * sum(n_tup_hot_upd) / NULLIF(sum(n_tup_upd), 0), 0)) FROM pg_stat_user_tables WHERE relname IN ('runs', 'threads')`

// rows returns the size of all tables and indexes except those of events.
func (m *meter) rows(b *testing.B) int64 {
	b.Helper()
	if m.postgres {
		return m.number(b, "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'baton'::regnamespace AND relname NOT LIKE 'event%'")
	}
	return m.number(b, "SELECT sum(pgsize) FROM dbstat WHERE name NOT LIKE '%event%' AND aggregate = TRUE")
}

// cpu returns the CPU time of this process and of PostgreSQL's.
func (m *meter) cpu(b *testing.B) (used time.Duration) {
	b.Helper()
	pids := []string{"self"}
	if m.postgres {
		rows, err := m.db.QueryContext(b.Context(), "SELECT pid FROM pg_stat_activity")
		must(b, err)
		defer rows.Close()
		for rows.Next() {
			var pid string
			must(b, rows.Scan(&pid))
			pids = append(pids, pid)
		}
		must(b, rows.Err())
	}
	for _, pid := range pids {
		threads, _ := filepath.Glob("/proc/" + pid + "/task/*/schedstat")
		for _, path := range threads {
			var ns int64
			text, _ := os.ReadFile(path)
			_, _ = fmt.Sscan(string(text), &ns)
			used += time.Duration(ns)
		}
	}
	return used
}

// startedOn returns a runtime on a new database.
func startedOn(b *testing.B, url string, a plugins.Plugin) (*runtime.Runtime, *storage.DB) {
	b.Helper()
	return startedWith(b, url, a, func(db *storage.DB) runtime.Store { return db })
}

// startedWith is startedOn with a wrapper of the database.
func startedWith(b *testing.B, url string, a plugins.Plugin, wrap func(*storage.DB) runtime.Store) (*runtime.Runtime, *storage.DB) {
	b.Helper()
	ctx := context.Background()
	db, err := storage.Open(ctx, storage.Config{URL: url, Migrate: true})
	must(b, err)
	reg := new(host.Registry)
	must(b, reg.Add(a))
	rt, err := runtime.New(runtime.Config{Store: wrap(db), Registry: reg, Log: slog.New(slog.DiscardHandler)})
	must(b, err)
	must(b, rt.Start(ctx))
	b.Cleanup(func() {
		if err := errors.Join(rt.Shutdown(ctx), db.Close()); err != nil {
			b.Error(err)
		}
	})
	return rt, db
}

// BenchmarkReplay reads a log of 100 000 events from the store and projects it, as it was written and when it is sealed. One
// op is one event. Its tokens are the words of a page.
func BenchmarkReplay(b *testing.B) {
	page, err := os.ReadFile("../docs/protocol.md")
	must(b, err)
	words := strings.SplitAfter(string(page), " ")
	said := 100_000
	if testing.Short() {
		said /= 100
	}
	long := agent{"long", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		w := run.Text()
		for i := range said {
			if _, err := io.WriteString(w, words[i%len(words)]); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{}, w.Close()
	}}
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(b.TempDir(), "baton.db"),
		"postgres": postgrestest.New(b),
	} {
		rt, db := startedOn(b, url, long)
		s, err := rt.StartRun(b.Context(), local, runtime.StartRequest{Agent: "long", Messages: user("go")})
		must(b, err)
		replay(b, rt, s, func(*runtime.Record) {})
		read := func(b *testing.B) {
			b.Helper()
			b.ReportAllocs()
			for done := 0; done < b.N; {
				replay(b, rt, s, func(r *runtime.Record) {
					r.JSON(agui.Seed)
					done++
				})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		}
		b.Run(name, read)
		sealed, err := db.Retention.Seal(b.Context(), time.Now().Add(72*time.Hour))
		if err != nil || sealed == 0 {
			b.Fatalf("%d events are sealed: %v", sealed, err)
		}
		if name == "postgres" { // which otherwise keeps the rows until their day is dropped
			dropEvents(b, url)
		}
		size := sealedSize(b, url) / float64(sealed)
		b.Run(name+"/sealed", func(b *testing.B) {
			read(b)
			b.ReportMetric(size, "stored-B/event")
		})
	}
}

// dropEvents removes the rows of all events, as the end of their day does.
func dropEvents(b *testing.B, url string) {
	b.Helper()
	if _, err := newMeter(b, url).db.ExecContext(b.Context(), "TRUNCATE events"); err != nil {
		b.Fatal(err)
	}
}

// sealedSize is how many bytes a database's segments have.
func sealedSize(b *testing.B, url string) float64 {
	b.Helper()
	return float64(newMeter(b, url).number(b, "SELECT sum(octet_length(data)) FROM event_segments"))
}

// replay reads the thread's log from its first event to its end.
func replay(b *testing.B, rt *runtime.Runtime, s runtime.Started, see func(*runtime.Record)) {
	b.Helper()
	th, err := rt.Threads.Get(b.Context(), local, s.ThreadID)
	must(b, err)
	cur, err := rt.Logs.Read(b.Context(), th, 0, false)
	must(b, err)
	defer cur.Close()
	for {
		recs, err := cur.Next(b.Context())
		if errors.Is(err, io.EOF) {
			return
		}
		must(b, err)
		for _, r := range recs {
			see(r)
		}
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
	cur, err := rt.Logs.ReadRun(ctx, s)
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
			n += len(r.JSON(agui.AGUI1))
		}
	}
}

// BenchmarkRetire measures how many runs a second the retention removes, sealed and each in a thread of its own, while nothing else
// is to be done. One op is one run.
func BenchmarkRetire(b *testing.B) {
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(b.TempDir(), "baton.db"),
		"postgres": postgrestest.New(b),
	} {
		b.Run(name, func(b *testing.B) {
			rt, db := startedOn(b, url, tokens)
			runsAtOnce(b, rt, "t", b.N, 50)
			late := time.Now().Add(72 * time.Hour)
			if _, err := db.Retention.Seal(b.Context(), late); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			list, err := rt.Retire(b.Context(), db.Retention, retention.Policy{Retention: retention.Retention{Runs: day}}, late)
			if err != nil || len(list) != 1 || list[0].Runs != b.N {
				b.Fatalf("removed %+v of %d runs: %v", list, b.N, err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}
