// Package budget counts the bytes that a server has in memory for its clients: the received parts of their requests and messages, and
// the unread parts of their answers. Each alone has a limit; this is the one for all of them together.
package budget

import (
	"fmt"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/quota"
)

// Budget is a number of bytes that clients share. It is used by any number of goroutines.
type Budget struct{ pool *quota.Pool }

// Small is the size up to which holds may use the last eighth of a budget: large requests do not shut out small ones.
const Small = 64 << 10

// New returns a budget of limits.Total bytes.
func New(limits quota.Limits) *Budget {
	limits.Small = Small
	return &Budget{quota.New(limits)}
}

// Total returns how many bytes there are.
func (b *Budget) Total() int64 { return b.pool.Limits().Total }

// Used returns how many bytes are held.
func (b *Budget) Used() int64 { return b.UsedBy(quota.Owner{}).Total }

// UsedBy returns how many bytes an owner, its project and all together hold.
func (b *Budget) UsedBy(o quota.Owner) quota.Used { return b.pool.Used(o) }

// ErrSpent means that the whole budget is held.
var ErrSpent = &runtime.Error{
	Kind: runtime.KindUnavailable, Code: "overloaded", RetryAfter: 2 * time.Second,
	Detail: "The server holds as much for its clients as it may; try again soon",
}

// refusal returns the error for a limit that has no room.
func (b *Budget) refusal(full quota.Scope) error {
	limits := b.pool.Limits()
	switch full {
	case quota.None:
		return nil
	case quota.User:
		return tooManyBytes("You may have %d bytes of requests and answers under way", limits.PerUser)
	case quota.Project:
		return tooManyBytes("Your project may have %d bytes of requests and answers under way", limits.PerProject)
	}
	return ErrSpent
}

func tooManyBytes(format string, limit int64) error {
	return &runtime.Error{Kind: runtime.KindOverloaded, Code: "too_many_bytes", Detail: fmt.Sprintf(format, limit), RetryAfter: 2 * time.Second}
}

// Hold is a reservation of bytes. The zero Hold has no limit. Release it.
type Hold struct {
	of *Budget
	r  *quota.Reservation
}

// Hold returns a hold without an owner and without bytes.
func (b *Budget) Hold() *Hold { return &Hold{b, b.pool.Reserve(quota.Owner{})} }

// For makes a hold that holds nothing an owner's, and returns it. One that holds something has its owner already.
func (h *Hold) For(o quota.Owner) *Hold {
	if h.of != nil && h.r.Held() == 0 {
		h.r = h.of.pool.Reserve(o)
	}
	return h
}

// Grow adds n bytes. It fails with an *runtime.Error, and adds none, when a limit has no room for them. One hold alone may be larger
// than its owner's share, but not than the whole budget.
func (h *Hold) Grow(n int) error {
	switch {
	case h.of == nil:
		return nil
	case int64(h.Size()+n) > h.of.Total():
		return ErrSpent
	}
	return h.of.refusal(h.r.Grow(int64(n)))
}

// Force adds n bytes that are in memory already, whatever the limits are.
func (h *Hold) Force(n int) { h.r.Force(int64(n)) }

// Size returns how many bytes are held.
func (h *Hold) Size() int { return int(h.r.Held()) }

// Resize makes the hold n bytes large, as Grow does if that is more. It never refuses to become smaller.
func (h *Hold) Resize(n int) error {
	more := n - h.Size()
	if more > 0 {
		return h.Grow(more)
	}
	h.Shrink(-more)
	return nil
}

// Shrink gives n bytes back.
func (h *Hold) Shrink(n int) { h.r.Force(-int64(n)) }

// Release gives all bytes back. It may be called more than once.
func (h *Hold) Release() { h.r.Release() }
