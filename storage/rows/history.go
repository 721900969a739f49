package rows

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const (
	selectHistoryDay = `
SELECT day FROM messages
WHERE thread_key = ` + threadOfProject + ` AND state = 'consumed' AND day < ? ORDER BY day DESC LIMIT 1`

	selectHistory = `
SELECT ` + messageColumns + `, key FROM messages
WHERE thread_key = ` + threadOfProject + ` AND state = 'consumed' AND day = ? AND seq > ? ORDER BY seq LIMIT ?`

	selectHistoryUntilFull = `
SELECT ` + messageColumns + `, key
FROM (SELECT *, sum(octet_length(message)) OVER (ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING) AS before FROM (` + selectHistory + `) AS plain) AS sized
WHERE COALESCE(before, 0) < ? ORDER BY seq`
)

const secondsPerDay = 24 * 60 * 60

// dayOf is the UTC day of a time, counted from 1970.
func dayOf(t time.Time) int64 {
	return t.UTC().Truncate(24*time.Hour).Unix() / secondsPerDay
}

// dayOrNull is the day of a time, NULL for the zero time.
func dayOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return dayOf(t)
}

type dayInto struct{ t *time.Time }

func (s dayInto) Scan(src any) error {
	*s.t = time.Time{}
	switch day := src.(type) {
	case nil:
	case int64:
		*s.t = time.Unix(day*secondsPerDay, 0).UTC()
	default:
		return fmt.Errorf("a day is a %T", src)
	}
	return nil
}

// HistoryDay returns the latest UTC day before that of a time with messages of the thread.
func (r *Reader) HistoryDay(ctx context.Context, project string, threadKey int64, before time.Time) (time.Time, error) {
	return sqldb.One(ctx, r.q, func(rows *sql.Rows) (day time.Time, err error) {
		return sqldb.Scan(rows, &day, dayInto{&day})
	}, selectHistoryDay, threadKey, project, dayOf(before))
}

// History lists the thread's consumed messages of a UTC day, by seq, from those above after.
func (r *Reader) History(ctx context.Context, project string, threadKey int64, day time.Time, after int64, limit int) (data.Page[data.Message], error) {
	return messagePage(ctx, r.q, r.d, data.PageBytes, limit, messages{selectHistory, selectHistoryUntilFull}, threadKey, project, dayOf(day), after)
}
