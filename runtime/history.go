package runtime

import (
	"context"
	"errors"
	"time"
)

// History is one UTC day of a thread's messages.
type History struct {
	Thread  Thread    // Key is 0 when the caller has no thread yet
	Day     time.Time // its midnight; zero when there are no messages that old
	HasMore bool      // an older day has messages
}

// History finds the latest day with messages in a thread, or the latest one earlier than the day of before if before
// is set. With name "" it uses the caller's own thread with the latest activity. Reasoning and activity messages do
// not count.
func (ts *Threads) History(ctx context.Context, c Caller, name string, before *time.Time) (History, error) {
	th, err := ts.latest(ctx, c, name)
	h := History{Thread: th}
	if err != nil || th.Key == 0 {
		return h, err
	}
	end := endOfTime
	if before != nil {
		end = *before
	}
	day, err := ts.store.HistoryDay(ctx, c.project, th.Key, end)
	if errors.Is(err, ErrNotFound) {
		return h, nil
	}
	if err != nil {
		return h, unavailable(err)
	}
	h.Day = day
	_, err = ts.store.HistoryDay(ctx, c.project, th.Key, day)
	h.HasMore = err == nil
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return h, unavailable(err)
}

// endOfTime is later than all messages.
var endOfTime = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)

// latest is Get; with name "" it returns the caller's latest thread, or the zero Thread when there is
// none.
func (ts *Threads) latest(ctx context.Context, c Caller, name string) (Thread, error) {
	if name != "" {
		return ts.Get(ctx, c, name)
	}
	if err := c.check(); err != nil {
		return Thread{}, err
	}
	th, err := ts.store.LatestThread(ctx, c.project, c.user)
	if errors.Is(err, ErrNotFound) {
		return Thread{}, nil
	}
	if err != nil {
		return Thread{}, unavailable(err)
	}
	return granted(th), nil
}

// HistoryMessages returns up to limit messages of the day with a seq above after, ordered by seq. It does not count
// the total.
func (ts *Threads) HistoryMessages(ctx context.Context, h History, after int64, limit int) (Page[Message], error) {
	if h.Day.IsZero() {
		return Page[Message]{}, nil
	}
	g, err := h.Thread.grant()
	if err != nil {
		return Page[Message]{}, err
	}
	msgs, err := ts.store.History(ctx, g.project, g.thread, h.Day, after, limit)
	return msgs, unavailable(err)
}
