package storage

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqlite"
)

// tap opens connections to a SQLite database and intercepts their statements.
type tap struct {
	sqlite driver.Driver
	dsn    string
	run    func(query string, do func() error) error // calls do, and returns its result to the program
}

// tapped opens a migrated database of which the tap is on the connection that writes.
func tapped(t *testing.T, run func(query string, do func() error) error) *DB {
	t.Helper()
	return tappedAt(t, "sqlite:"+filepath.Join(t.TempDir(), "baton.db"), run)
}

func tappedAt(t *testing.T, url string, run func(query string, do func() error) error) *DB {
	t.Helper()
	db, err := Open(t.Context(), Config{URL: url, Migrate: true})
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	to := db.w.Pool.SQL
	dsn := sqlite.DSN(strings.TrimPrefix(url, "sqlite:"), db.cfg.LockTimeout, "journal_mode(WAL)", "synchronous(FULL)", "wal_autocheckpoint(4000)")
	db.w.Pool.SQL = sqlx.NewDb(sql.OpenDB(tap{to.Driver(), dsn, run}), "sqlite")
	must(t, to.Close())
	return db
}

func (t tap) Driver() driver.Driver { return t.sqlite }

func (t tap) Connect(context.Context) (driver.Conn, error) {
	conn, err := t.sqlite.Open(t.dsn)
	return tappedConn{conn, t}, err
}

type tappedConn struct {
	driver.Conn
	tap
}

func (c tappedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	stmt, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	return tappedStmt{stmt, c.tap, query}, err
}

type tappedStmt struct {
	driver.Stmt
	tap
	query string
}

func (s tappedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (res driver.Result, err error) {
	err = s.run(s.query, func() (err error) {
		res, err = s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
		return err
	})
	return res, err
}

func (s tappedStmt) Query(args []driver.Value) (rows driver.Rows, err error) {
	err = s.run(s.query, func() (err error) {
		rows, err = s.Stmt.Query(args) //nolint:staticcheck // the replacement does not help a wrapper
		return err
	})
	return rows, err
}

// The number of statements does not depend on the number of decisions.
func TestDecisionsShareStatements(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	n := new(atomic.Int64)
	db := tapped(t, func(_ string, do func() error) error { n.Add(1); return do() })
	must(t, db.Members().Join(ctx, "instance", ""))
	var rows []data.Row
	var asks []data.Ask
	for i := range int64(64) {
		thread := data.ThreadHead{Key: i + 1, Project: "p", User: "u", ID: fmt.Sprint(i), ConversationID: fmt.Sprint(i)}
		head := data.RunHead{Key: i + 1, ThreadKey: i + 1, Status: data.Waiting}
		over := data.RunHead{Key: i + 101, ThreadKey: i + 1, Status: data.Completed}
		rows = append(rows, &data.Thread{ThreadHead: thread}, &data.Run{RunHead: head}, &data.Run{RunHead: over})
		asks = append(asks, data.Ask{
			Name: data.Name{Project: "p", User: "u", ID: thread.ID}, Runs: []int64{over.Key},
			RunName: data.Name{Project: "p", User: "u", ID: thread.ID}, Scope: "scope", IDs: []string{"m"},
			Interrupts: []string{thread.ID},
		})
	}
	must(t, db.Commit(ctx, 1, &data.Batch{Rows: rows}))
	commits := int64(1)
	count := func(asks []data.Ask) int64 {
		t.Helper()
		before := n.Load()
		commits++
		err := db.Commit(ctx, commits, &data.Batch{Asks: asks, Decide: func(i int, v *data.View) data.Changes {
			if !v.Exists || len(v.Runs) != 1+len(asks[i].Runs) {
				t.Errorf("decision %d sees %+v", i, v)
			}
			return data.Changes{}
		}})
		must(t, err)
		return n.Load() - before
	}
	one, all, again := count(asks[:1]), count(asks), count(asks)
	if one != all || again != all {
		t.Errorf("one decision takes %d statements, %d take %d, and then %d", one, len(asks), all, again)
	}
	if bare := count([]data.Ask{{Thread: 1}}); bare >= one-3 {
		t.Errorf("a decision that asks for little takes %d statements of %d", bare, one)
	}
}
