package storage

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/rows"
	"github.com/batonrun/baton/storage/sqldb"
)

// A page of events that is read while a run goes has none of the run's, which would be without its name.
func TestEventsAreReadWhileTheirRunGoes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db *DB) {
		ctx, now := t.Context(), time.Now()
		must(t, db.Members().Join(ctx, "instance", ""))
		b := &data.Batch{Rows: []data.Row{&data.Thread{ThreadHead: data.ThreadHead{
			Key: 1, Project: "p", User: "u", ID: "t", ConversationID: "t", CreatedAt: now, UpdatedAt: now,
		}}}}
		for key := int64(1); key <= 3; key++ { // each with two events
			id := fmt.Sprint("run", key)
			head := data.RunHead{Key: key, ThreadKey: 1, ID: id, Project: "p", User: "u", Status: data.Completed, CreatedAt: now, QueuedAt: now}
			b.Rows = append(b.Rows, &data.Run{RunHead: head}, &data.Span{RunKey: key, N: 1, ThreadKey: 1, RunID: id, First: 2*key - 1, Last: 2 * key})
			for n := 2*key - 1; n <= 2*key; n++ {
				b.Events = append(b.Events, data.StoredEvent{ThreadKey: 1, RunKey: key, ID: n, Kind: agui.TypeCustom, Payload: []byte(`{"type":"CUSTOM"}`)})
			}
		}
		must(t, db.Commit(ctx, 1, b))
		n := int64(1)
		for _, c := range []struct {
			run   int64
			limit int
			want  string
		}{
			{2, 10, "[1 run1 2 run1 5 run3 6 run3]"},
			{1, 2, "[5 run3 6 run3]"}, // the whole page
			{3, 10, "[]"},
		} {
			r := rows.NewLogs(db.d, &meanwhile{db.read, func() {
				n++
				if err := db.Commit(ctx, n, &data.Batch{Rows: []data.Row{&data.Delete{ThreadKey: 1, RunKey: c.run, Events: true, Limit: 100}}}); err != nil {
					t.Error(err)
				}
			}}, db.codec, sqldb.Turns{})
			events, err := r.Events(ctx, 1, 0, c.limit)
			list := []string{}
			for i := range events {
				list = append(list, fmt.Sprint(events[i].ID, " ", events[i].RunID))
			}
			if got := fmt.Sprint(list); got != c.want || err != nil {
				t.Errorf("while run %d goes: %s, %v, want %s", c.run, got, err, c.want)
			}
		}
	})
}

// meanwhile is a Querier that calls happens before spans are read.
type meanwhile struct {
	sqldb.Querier
	happens func()
}

func (m *meanwhile) Query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	if strings.Contains(query, "FROM run_spans") && m.happens != nil {
		m.happens()
		m.happens = nil
	}
	return m.Querier.Query(ctx, query, args)
}
