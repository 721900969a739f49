package ws

import (
	"context"
	"time"
)

// changesPause is the time between two messages about changes, as a client reads the lists after each.
const changesPause = 250 * time.Millisecond

// changed is the frame that announces a change.
var changed = encoded(reply{Op: "changed"})

// watched is the answer to watch and unwatch.
type watched struct {
	ProjectID string `json:"projectId"`
}

// watch returns the function that announces changes of the project's lists to the client.
func (d *desk) watch(ctx context.Context, s *socket) (any, func(), error) {
	if d.lists != nil {
		return nil, nil, errWatching
	}
	ctx, cancel := context.WithCancel(ctx)
	sub := &subscription{cancel, make(chan struct{})}
	d.lists = sub
	w := d.t.Runtime.Watch(d.who)
	return watched{d.who.Project()}, func() {
		d.begin(func() {
			defer close(sub.done)
			defer w.Close()
			d.t.Streams.Guard(func() {
				for w.Next(ctx) == nil && s.w.Batch(func() { _, _ = s.w.Write(changed) }) == nil {
					pause(ctx, changesPause)
				}
			})
		})
	}, nil
}

// unwatch ends a watch: no message of it follows.
func (d *desk) unwatch() (any, error) {
	if d.lists == nil {
		return nil, errNotWatching
	}
	d.lists.cancel()
	<-d.lists.done
	d.lists = nil
	return watched{d.who.Project()}, nil
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
