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

	"github.com/batonrun/baton/runtime/model"
)

// counter opens connections to a SQLite database that count the statements that run on them.
type counter struct {
	sqlite driver.Driver
	dsn    string
	n      *atomic.Int64
}

func (c counter) Driver() driver.Driver { return c.sqlite }

func (c counter) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.sqlite.Open(c.dsn)
	return countedConn{conn, c.n}, err
}

type countedConn struct {
	driver.Conn
	n *atomic.Int64
}

func (c countedConn) Prepare(query string) (driver.Stmt, error) {
	stmt, err := c.Conn.Prepare(query)
	return countedStmt{stmt, c.n}, err
}

type countedStmt struct {
	driver.Stmt
	n *atomic.Int64
}

func (s countedStmt) Exec(args []driver.Value) (driver.Result, error) {
	s.n.Add(1)
	return s.Stmt.Exec(args) //nolint:staticcheck // what it has instead is of no use to a wrapper
}

func (s countedStmt) Query(args []driver.Value) (driver.Rows, error) {
	s.n.Add(1)
	return s.Stmt.Query(args) //nolint:staticcheck // likewise
}

// Decisions are shown what they ask for with as many statements, whatever their number.
func TestDecisionsShareStatements(t *testing.T) {
	ctx := t.Context()
	cfg := Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "baton.db"), Migrate: true}.withDefaults()
	d, n := sqliteDialect(), new(atomic.Int64)
	d.open = func(cfg Config, m mode) (*sqlx.DB, error) {
		db, err := openSQLite(cfg, m)
		if err != nil || m != writing {
			return db, err
		}
		dsn := sqliteDSN(cfg, strings.TrimPrefix(cfg.URL, "sqlite:"), m)
		counting := sql.OpenDB(counter{db.Driver(), dsn, n})
		return sqlx.NewDb(counting, "sqlite"), db.Close()
	}
	db, err := openAs(ctx, cfg, d)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Join(ctx, "instance", ""); err != nil {
		t.Fatal(err)
	}
	var rows []model.Row
	var asks []model.Ask
	for i := range int64(64) {
		thread := model.ThreadHead{Key: i + 1, Project: "p", User: "u", ID: fmt.Sprint(i), ConversationID: fmt.Sprint(i)}
		head := model.RunHead{Key: i + 1, ThreadKey: i + 1, Status: model.Waiting}
		over := model.RunHead{Key: i + 101, ThreadKey: i + 1, Status: model.Completed}
		rows = append(rows, &model.Thread{ThreadHead: thread}, &model.Run{RunHead: head}, &model.Run{RunHead: over})
		asks = append(asks, model.Ask{
			Name: model.Name{Project: "p", User: "u", ID: thread.ID}, Runs: []int64{over.Key},
			RunName: model.Name{Project: "p", User: "u", ID: thread.ID}, Scope: "scope", IDs: []string{"m"},
			Interrupts: []string{thread.ID},
		})
	}
	if err := db.Commit(ctx, 1, &model.Batch{Rows: rows}); err != nil {
		t.Fatal(err)
	}
	commits := int64(1)
	count := func(asks []model.Ask) int64 {
		t.Helper()
		before := n.Load()
		commits++
		err := db.Commit(ctx, commits, &model.Batch{Asks: asks, Decide: func(i int, v *model.View) model.Changes {
			if !v.Exists || len(v.Runs) != 1+len(asks[i].Runs) {
				t.Errorf("decision %d sees %+v", i, v)
			}
			return model.Changes{}
		}})
		if err != nil {
			t.Fatal(err)
		}
		return n.Load() - before
	}
	one, all, again := count(asks[:1]), count(asks), count(asks)
	if one != all || again != all {
		t.Errorf("one decision takes %d statements, %d take %d, and then %d", one, len(asks), all, again)
	}
	if bare := count([]model.Ask{{Thread: 1}}); bare >= one-3 {
		t.Errorf("a decision that asks for little takes %d statements of %d", bare, one)
	}
}
