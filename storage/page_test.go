package storage

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/lists"
	"github.com/batonrun/baton/storage/sqldb"
)

// between is a sqldb.Querier with a hook before each query but the first.
type between struct {
	sqldb.Querier
	queries int
	happens func()
}

func (b *between) Query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	if b.queries++; b.queries > 1 {
		b.happens()
	}
	return b.Querier.Query(ctx, query, args)
}

// A page never has more rows than its total, even if rows are added while it is read.
func TestPageAgreesWithItsTotal(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := openForPlans(t, "sqlite:"+filepath.Join(t.TempDir(), "baton.db"))
	must(t, db.Members().Join(ctx, "instance", ""))
	now := time.Now()
	n := int64(0)
	add := func() {
		n++
		thread := data.ThreadHead{Key: n, Project: "p", User: "u", ID: fmt.Sprint(n), ConversationID: fmt.Sprint(n), CreatedAt: now, UpdatedAt: now}
		head := data.RunHead{Key: n, ThreadKey: n, Project: "p", User: "u", Status: data.Completed, CreatedAt: now, QueuedAt: now}
		must(t, db.Commit(ctx, n, &data.Batch{Rows: []data.Row{&data.Thread{ThreadHead: thread}, &data.Run{RunHead: head}}}))
	}
	add()
	read := func() lists.Pages {
		return lists.NewPages(db.d, &between{Querier: db.read, happens: add}, sqldb.Turns{})
	}
	runs, err := read().Runs(ctx, data.RunFilter{Project: "p", Count: true})
	agrees(t, "runs", runs, err)
	threads, err := read().Threads(ctx, data.ThreadFilter{Project: "p", User: "u", Count: true})
	agrees(t, "threads", threads, err)
}

func agrees[T any](t *testing.T, what string, p data.Page[T], err error) {
	t.Helper()
	if err != nil || len(p.Rows) == 0 || len(p.Rows) != p.Total || p.More {
		t.Errorf("there are %d %s of %d, more %v, %v", len(p.Rows), what, p.Total, p.More, err)
	}
}
