package ws

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/fanout"
	"github.com/batonrun/baton/transports/rates"
	"github.com/batonrun/baton/transports/stream"
)

// protocolMany is the subprotocol of a socket with many threads.
const protocolMany = "baton.v1"

// desk is a socket with many threads. The reading goroutine executes commands one at a time, in order; the next ones wait with the
// client. Each subscription has a goroutine that follows its thread. All write to the socket in turn, without queues.
type desk struct {
	t       Transport
	who     runtime.Caller
	project string // that the query names

	subs  map[string]*subscription // by the name the client uses; of the reading goroutine
	lists *subscription            // to the project's lists, nil for none; used by the reading goroutine
	turn  chan struct{}            // holds one while a subscription has events to write

	mu    sync.Mutex     // guards the fields below
	all   sync.WaitGroup // the goroutines of subscriptions
	ended bool           // there will be no other
}

// subscription is a thread that a socket shows.
type subscription struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// many answers GET of the socket for many threads.
func (t Transport) many(c *fiber.Ctx, _ runtime.Caller) error {
	project := c.Query("projectId")
	who, err := auth.ForProject(c, project)
	if err != nil {
		return t.refuse(c, protocol(c, protocolMany), err)
	}
	d := &desk{t: t, who: who, project: project, subs: make(map[string]*subscription), turn: make(chan struct{}, 1)}
	return t.hold(c, conversation{
		protocol: protocol(c, protocolMany), limit: t.Input, take: d.take,
		talk: func(ctx context.Context, _ *socket) error {
			<-ctx.Done()
			d.end()
			return context.Cause(ctx)
		},
	})
}

// reply is a frame that is no event.
type reply struct {
	Op       string          `json:"op"`
	Ref      json.RawMessage `json:"ref,omitempty"`
	ThreadID string          `json:"threadId,omitempty"`
	Result   any             `json:"result,omitempty"`
	Detail   string          `json:"detail,omitempty"`
	Code     string          `json:"code,omitempty"`
	Place    string          `json:"place,omitempty"`
}

// largeReply is the size above which a reply counts as held while its client does not take it.
const largeReply = 64 << 10

// say writes a reply.
func (s *socket) say(r reply) {
	frame := encoded(r)
	held := s.budget.Hold()
	defer held.Release()
	if len(frame) > largeReply {
		held.Force(len(frame)) // the command has had its effect
	}
	_ = s.w.Batch(func() { _, _ = s.w.Write(frame) })
}

// refuse sends the error of a command, or of a thread that can no longer be shown.
func (s *socket) refuse(ref json.RawMessage, threadID string, err error, about ...any) {
	_, p := s.problem(err, about...)
	s.say(reply{Op: "error", Ref: ref, ThreadID: threadID, Detail: p.Detail, Code: p.Code, Place: p.Place})
}

// subscribed is the answer to a subscription.
type subscribed struct {
	ThreadID string `json:"threadId"`
	After    int64  `json:"afterEventId"` // events follow after this one
}

// subscribe opens a thread, and returns the function that begins to show it.
func (d *desk) subscribe(ctx context.Context, s *socket, threadID string, after int64) (any, func(), error) {
	maps.DeleteFunc(d.subs, func(_ string, sub *subscription) bool { return sub.over() })
	if d.subs[threadID] != nil {
		return nil, nil, errSubscribed
	}
	if len(d.subs) == rates.PerSocket {
		return nil, nil, errSubscriptions
	}
	release, err := d.t.Streams.Rates.Subscribe(d.who)
	if err != nil {
		return nil, nil, err
	}
	cur, err := d.open(context.WithoutCancel(ctx), threadID, after)
	if err != nil {
		release()
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	sub := &subscription{cancel, make(chan struct{})}
	d.subs[threadID] = sub
	feed := &fanout.Feed{Cursor: &reader{cur, d.turn, false}, Projection: agui.Seed, Framing: named(threadID)}
	return subscribed{threadID, cur.After()}, func() {
		d.begin(func() {
			defer close(sub.done)
			defer release()
			d.t.Streams.Guard(func() { d.follow(ctx, s, threadID, feed) })
		})
	}, nil
}

// open opens a thread behind an event.
func (d *desk) open(ctx context.Context, threadID string, after int64) (*runtime.Cursor, error) {
	th, err := d.t.Runtime.Threads.Get(ctx, d.who, threadID)
	if err != nil {
		return nil, err
	}
	return d.t.Runtime.Logs.Read(ctx, th, after, true)
}

// reader is a subscription's cursor. The subscriptions of a socket read in turn: if the client does not read, only one holds a
// page.
type reader struct {
	*runtime.Cursor
	turn chan struct{}
	has  bool // it is this one's turn
}

func (r *reader) Next(ctx context.Context) ([]*runtime.Record, error) {
	if !r.Waits() {
		select {
		case r.turn <- struct{}{}:
			r.has = true
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return r.Cursor.Next(ctx)
}

// Waits also reports that the last returned records are written.
func (r *reader) Waits() bool {
	if r.has {
		r.has = false
		r.Forget() // before it waits for its next turn, as all others do
		<-r.turn
	}
	return r.Cursor.Waits()
}

func (r *reader) Close() {
	_ = r.Waits()
	r.Cursor.Close()
}

// begin runs show, which ends when its client unsubscribes or the socket ends, in a goroutine unless that has
// happened already.
func (d *desk) begin(show func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		show()
		return
	}
	d.all.Go(show)
}

// end waits for the subscriptions of a socket that has ended.
func (d *desk) end() {
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	d.all.Wait()
}

// follow shows a thread.
func (d *desk) follow(ctx context.Context, s *socket, threadID string, feed *fanout.Feed) {
	defer feed.Cursor.Close()
	err := d.t.Streams.Follow(ctx, s.w, feed)
	if ctx.Err() == nil && !errors.Is(err, stream.ErrGone) {
		s.refuse(nil, threadID, cmp.Or(err, error(runtime.ErrThreadNotFound)), "thread", threadID) // it ends only with its thread
	}
}

// unsubscribe ends a subscription: no event of it follows.
func (d *desk) unsubscribe(threadID string) (any, error) {
	sub := d.subs[threadID]
	if sub == nil {
		return nil, errNotSubscribed
	}
	delete(d.subs, threadID)
	sub.cancel()
	<-sub.done
	return unsubscribed{threadID}, nil
}

// unsubscribed is the answer to the end of a subscription.
type unsubscribed struct {
	ThreadID string `json:"threadId"`
}

// over reports whether nothing is shown any more.
func (sub *subscription) over() bool {
	select {
	case <-sub.done:
		sub.cancel()
		return true
	default:
		return false
	}
}

// The refusals of a socket with many threads.
var (
	errSubscribed = &runtime.Error{
		Kind: runtime.KindConflict, Code: "already_subscribed", Detail: "This socket shows that thread already; unsubscribe first",
	}
	errNotSubscribed = &runtime.Error{
		Kind: runtime.KindNotFound, Code: "not_subscribed", Detail: "This socket does not show that thread",
	}
	errWatching = &runtime.Error{
		Kind: runtime.KindConflict, Code: "already_subscribed", Detail: "This socket is told of changes already",
	}
	errNotWatching = &runtime.Error{
		Kind: runtime.KindNotFound, Code: "not_subscribed", Detail: "This socket is not told of changes",
	}
	errSubscriptions = &runtime.Error{
		Kind: runtime.KindOverloaded, Code: "too_many_subscriptions", Detail: "A socket shows at most 256 threads; open another",
	}
	errLarge = fiber.ErrRequestEntityTooLarge
)
