// Package budget counts the bytes that a server holds for others: what of their requests and messages has come in, and what of
// their answers they have not taken yet. Each alone has a limit; this is the one for all of them together.
package budget

import (
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/runtime"
)

// Budget is a number of bytes that many share. It is used by any number of goroutines.
type Budget struct {
	total int64
	used  atomic.Int64
}

// New returns a budget of total bytes.
func New(total int64) *Budget { return &Budget{total: total} }

// Total is how much there is.
func (b *Budget) Total() int64 { return b.total }

// Used is how much of the budget is held.
func (b *Budget) Used() int64 { return b.used.Load() }

// ErrSpent means that a server holds as much as it may.
var ErrSpent = &runtime.Error{
	Kind: runtime.KindUnavailable, Code: "overloaded", RetryAfter: 2 * time.Second,
	Detail: "The server holds as much for its clients as it may; try again soon",
}

// small is what a Hold may have of the last eighth of a budget: who sends much cannot shut out those who send little.
const small = 64 << 10

// Hold is somebody's part of a budget. The zero Hold of no budget holds nothing and refuses nothing.
type Hold struct {
	of *Budget
	to Payer // nil for nobody
	n  atomic.Int64
}

// Payer is who a Hold is for, and may have a part of the budget only.
type Payer interface {
	// Pay counts n bytes more of a Hold that has some, or says why not. Below 0 they are given back, which nothing keeps from.
	Pay(has, n int64) error
}

// For makes a Hold, and what it has, somebody's: of one that has something, whose it is already. It may be nobody's.
func (h *Hold) For(p Payer) *Hold {
	h.to = p
	return h
}

// Hold returns a part of the budget, which is nothing yet. Release it.
func (b *Budget) Hold() *Hold { return &Hold{of: b} }

// Grow adds n bytes to the part, or fails with ErrSpent.
func (h *Hold) Grow(n int) error {
	if h.of == nil {
		return nil
	}
	most := h.of.total
	if h.n.Load()+int64(n) > small {
		most -= most / 8
	}
	if h.of.used.Add(int64(n)) > most {
		h.of.used.Add(-int64(n))
		return ErrSpent
	}
	if h.to != nil {
		if err := h.to.Pay(h.n.Load(), int64(n)); err != nil {
			h.of.used.Add(-int64(n))
			return err
		}
	}
	h.n.Add(int64(n))
	return nil
}

// Force is Grow for what is there already: it does not fail. All of the part is nobody's from then on.
func (h *Hold) Force(n int) {
	if h.of == nil {
		return
	}
	if has := h.n.Load(); h.to != nil && has > 0 {
		_ = h.to.Pay(has, -has)
	}
	h.to = nil
	h.of.used.Add(int64(n))
	h.n.Add(int64(n))
}

// Size is how many bytes the part has.
func (h *Hold) Size() int { return int(h.n.Load()) }

// Resize makes the part n bytes, or fails with ErrSpent and leaves it. Less than it was there is always room for.
func (h *Hold) Resize(n int) error {
	more := n - h.Size()
	if more > 0 {
		return h.Grow(more)
	}
	h.Shrink(-more)
	return nil
}

// Shrink gives n bytes of the part back.
func (h *Hold) Shrink(n int) {
	if h.of != nil {
		has := h.n.Add(-int64(n))
		h.of.used.Add(-int64(n))
		if h.to != nil {
			_ = h.to.Pay(has+int64(n), -int64(n))
		}
	}
}

// Release gives back all of the part. It may be called more than once.
func (h *Hold) Release() {
	if h.of == nil {
		return
	}
	n := h.n.Swap(0)
	h.of.used.Add(-n)
	if h.to != nil && n > 0 {
		_ = h.to.Pay(n, -n)
	}
}
