package storage

import (
	"context"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

const (
	selectHistoryDay = `
SELECT day FROM messages
WHERE thread_key = ? AND state = 'consumed' AND day < ? ORDER BY day DESC LIMIT 1`

	selectHistory = `
SELECT ` + messageColumns + `, key FROM messages
WHERE thread_key = ? AND state = 'consumed' AND day = ? AND seq > ? ORDER BY seq LIMIT ?`
)

const secondsPerDay = 24 * 60 * 60

// dayOf is the UTC day of a time, counted from 1970.
func dayOf(t time.Time) int64 {
	return t.UTC().Truncate(24*time.Hour).Unix() / secondsPerDay
}

// historyDay is the day in whose history a message stands, NULL if it stands in none.
func historyDay(m *runtime.Message) any {
	if m.Role == agui.RoleReasoning || m.Role == agui.RoleActivity {
		return nil
	}
	return dayOf(m.CreatedAt)
}

// HistoryDay returns the latest UTC day before that of a time whose history has messages of the thread.
func (r reader) HistoryDay(ctx context.Context, threadKey int64, before time.Time) (time.Time, error) {
	day, err := one(ctx, r.q, scalar[int64], selectHistoryDay, threadKey, dayOf(before))
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(day*secondsPerDay, 0).UTC(), nil
}

// History lists the messages in the history of a UTC day, by seq, from those above after.
func (r reader) History(ctx context.Context, threadKey int64, day time.Time, after int64, limit int) ([]runtime.Message, error) {
	return all(ctx, r.q, scanMessage, selectHistory, threadKey, dayOf(day), after, limit)
}
