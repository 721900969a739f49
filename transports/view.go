package transports

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/fanout"
	"github.com/batonrun/baton/transports/wire"
)

// View is a viewer's request for a thread's log.
type View struct {
	Thread runtime.Handle
	After  int64         // the events behind this one
	Latest bool          // After is where the log ended at the request
	Follow bool          // the view does not end when no run is queued or running
	Gather time.Duration // between two writes at least
	Ended  bool          // there is nothing to show, and the thread is not busy
}

// maxGather is the longest time a viewer may have events gathered, in milliseconds.
const maxGather = 1000

// View reads a request for the log of the thread in c's path. It fails for a thread that the caller may not see,
// for a query that it cannot read, and for a cursor beyond the log's end.
func (s *Streams) View(c *fiber.Ctx, who runtime.Caller) (*View, error) {
	th, err := s.rt.Threads.Get(c.UserContext(), who, wire.Unescape(c.Params("thread_id")))
	if err != nil {
		return nil, err
	}
	v := &View{Thread: th.Handle()}
	if err := v.parse(c); err != nil {
		return nil, err
	}
	cur, err := s.rt.Logs.Read(c.UserContext(), th, v.After, v.Follow)
	if err != nil {
		return nil, err
	}
	defer cur.Close() // the stream opens its own: it may never begin
	v.After, v.Ended = cur.After(), cur.Ended()
	return v, nil
}

// Feed opens a cursor for v, in projection p. Close the cursor when done.
func (s *Streams) Feed(ctx context.Context, v *View, p agui.Projection) (*fanout.Feed, error) {
	cur, err := s.rt.Logs.Read(ctx, v.Thread, v.After, v.Follow)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err) // the store does not return the cause of a cancelled read
	}
	return &fanout.Feed{Cursor: cur, Projection: p, Gather: v.Gather}, nil
}

// parse reads the query and the headers of a reconnecting client.
func (v *View) parse(c *fiber.Ctx) (err error) {
	if v.After, err = wire.EventID(cmp.Or(wire.LastEventID(c), c.Query("after_event_id", "0"))); err != nil {
		return err
	}
	v.Latest = v.After == runtime.Latest
	if v.Follow, err = strconv.ParseBool(c.Query("follow", "false")); err != nil {
		return wire.Refuse("invalid_request", "follow must be true or false")
	}
	ms, err := strconv.ParseUint(c.Query("gather", "0"), 10, 16)
	if err != nil || ms > maxGather {
		return wire.Refuse("invalid_request", "gather must be a number of milliseconds from 0 to 1000")
	}
	v.Gather = time.Duration(ms) * time.Millisecond
	return nil
}
