package runtime

import (
	"context"
	"errors"
	"time"
)

// History is one UTC day of a thread's messages.
type History struct {
	Thread  Thread    // Key is 0 when the caller has none yet
	Day     time.Time // its midnight; zero when there are no messages so old
	HasMore bool      // an older day has messages
}

// History finds the latest day, before that of before unless it is nil, on which messages came to a thread: to
// the one the caller names, or with name "" to the caller's own with the latest activity. Reasoning and
// activities do not count.
func (rt *Runtime) History(ctx context.Context, c Caller, name string, before *time.Time) (History, error) {
	th, err := rt.threadOrLatest(ctx, c, name)
	h := History{Thread: th}
	if err != nil || th.Key == 0 {
		return h, err
	}
	end := endOfTime
	if before != nil {
		end = *before
	}
	day, err := rt.store.HistoryDay(ctx, c.project, th.Key, end)
	if errors.Is(err, ErrNotFound) {
		return h, nil
	}
	if err != nil {
		return h, unavailable(err)
	}
	h.Day = day
	_, err = rt.store.HistoryDay(ctx, c.project, th.Key, day)
	h.HasMore = err == nil
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return h, unavailable(err)
}

// endOfTime is later than all messages.
var endOfTime = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)

// threadOrLatest is Thread, and with name "" the caller's latest: the zero Thread when there is none.
func (rt *Runtime) threadOrLatest(ctx context.Context, c Caller, name string) (Thread, error) {
	if name != "" {
		return rt.Thread(ctx, c, name)
	}
	if err := c.check(); err != nil {
		return Thread{}, err
	}
	th, err := rt.store.LatestThread(ctx, c.project, c.user)
	if errors.Is(err, ErrNotFound) {
		return Thread{}, nil
	}
	if err != nil {
		return Thread{}, unavailable(err)
	}
	return granted(th), nil
}

// HistoryMessages returns up to limit messages of the day, by seq, from those above after. It counts nothing.
func (rt *Runtime) HistoryMessages(ctx context.Context, h History, after int64, limit int) (Page[Message], error) {
	if h.Day.IsZero() {
		return Page[Message]{}, nil
	}
	g, err := h.Thread.grant()
	if err != nil {
		return Page[Message]{}, err
	}
	msgs, err := rt.store.History(ctx, g.project, g.thread, h.Day, after, limit)
	return msgs, unavailable(err)
}
