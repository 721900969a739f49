package budget_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/transports/budget"
)

func TestHold_RefusesWithALimitsError(t *testing.T) {
	t.Parallel()
	b := budget.New(quota.Limits{Total: 8 << 20, PerProject: 6 << 20, PerUser: 4 << 20})
	ann, ben, cem := quota.OwnerOf("p", "ann"), quota.OwnerOf("p", "ben"), quota.OwnerOf("q", "cem")
	refusal := func(h *budget.Hold, n int) string {
		e, refused := errors.AsType[*runtime.Error](h.Grow(n))
		if !refused {
			return ""
		}
		if e.RetryAfter <= 0 {
			t.Errorf("%v does not say when to try again", e)
		}
		return e.Detail
	}
	of := b.Hold().For(ann)
	for i, c := range []struct {
		h    *budget.Hold
		n    int
		want string
	}{
		{of, 4 << 20, ""},
		{b.Hold().For(ann), 1, "You may have 4194304 bytes of requests and answers under way"},
		{b.Hold().For(ben), 2<<20 + 1, "Your project may have 6291456 bytes of requests and answers under way"},
		{b.Hold().For(cem), 4 << 20, budget.ErrSpent.Detail},
		{b.Hold().For(cem), budget.Small, ""},
		{b.Hold(), 4 << 20, budget.ErrSpent.Detail},
		{b.Hold(), 2 << 20, ""},
	} {
		if got := refusal(c.h, c.n); got != c.want {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
	}
	if of.For(ben) != of || b.UsedBy(ann).User != 4<<20 {
		t.Error("a hold of something has another owner")
	}
	of.Shrink(1)
	if err := of.Resize(4 << 20); err != nil || of.Size() != 4<<20 {
		t.Errorf("%v, %d", err, of.Size())
	}
	of.Release()
	of.Release()
	if got := b.UsedBy(ann); got.User != 0 || got.Project != 0 || b.Used() != 2<<20+budget.Small {
		t.Errorf("%+v are held", got)
	}
	of.Force(9 << 20)
	if got := b.Used(); got < 9<<20 {
		t.Errorf("%d are held", got)
	}
}

// TestReadAllHoldsWhatHasCome reads bodies with every kind of announcement.
func TestReadAllHoldsWhatHasCome(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 1023, 1024, 1025, 5000, 100_000} {
		for _, limit := range []int{0, size - 1, size, size + 1, 10 * size} {
			for _, announced := range []int{-1, size - 1, size, size + 1} {
				if limit < 0 || announced < -1 {
					continue
				}
				b := budget.New(quota.Limits{Total: 4 * 100_000})
				h := b.Hold()
				body := bytes.Repeat([]byte("x"), size)
				got, err := h.ReadAll(iotest.HalfReader(bytes.NewReader(body)), announced, limit)
				switch fits := size <= limit && announced <= limit && (announced < 0 || announced >= size); {
				case fits && (err != nil || !bytes.Equal(got, body) || b.Used() > int64(max(2*size, 1<<10))):
					t.Errorf("%d of %d, announced %d: got %d, %v, which hold %d", size, limit, announced, len(got), err, b.Used())
				case !fits && err == nil:
					t.Errorf("%d of %d, announced %d: no error", size, limit, announced)
				}
				h.Release()
				if b.Used() != 0 {
					t.Errorf("%d are still held", b.Used())
				}
			}
		}
	}
	broken := errors.New("broken")
	if _, err := budget.New(quota.Limits{Total: 1 << 20}).Hold().ReadAll(iotest.ErrReader(broken), 10, 10); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	b := budget.New(quota.Limits{Total: 3000})
	b.Hold().Force(1)
	if _, err := b.Hold().ReadAll(bytes.NewReader(make([]byte, 9000)), 9000, 9000); !errors.Is(err, budget.ErrSpent) {
		t.Errorf("got %v", err)
	}
	if got, err := new(budget.Hold).ReadAll(io.LimitReader(bytes.NewReader(make([]byte, 9000)), 8000), -1, 9000); len(got) != 8000 || err != nil {
		t.Errorf("of no budget: got %d, %v", len(got), err)
	}
}
