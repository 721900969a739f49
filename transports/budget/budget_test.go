package budget_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/batonrun/baton/transports/budget"
)

func TestHoldsShareABudget(t *testing.T) {
	b := budget.New(8 << 20)
	large, small := b.Hold(), b.Hold()
	if err := large.Grow(7<<20 + 1); !errors.Is(err, budget.ErrSpent) {
		t.Errorf("of the last eighth: got %v", err)
	}
	if err := large.Grow(7 << 20); err != nil {
		t.Error(err)
	}
	for range 16 {
		if err := b.Hold().Grow(64 << 10); err != nil {
			t.Error(err)
		}
	}
	if err := small.Grow(1); !errors.Is(err, budget.ErrSpent) {
		t.Errorf("of a spent budget: got %v", err)
	}
	large.Release()
	large.Release()
	if got := b.Used(); got != 1<<20 {
		t.Errorf("%d are used", got)
	}
}

// TestReadAllHoldsWhatHasCome reads bodies with every kind of announcement.
func TestReadAllHoldsWhatHasCome(t *testing.T) {
	for _, size := range []int{0, 1, 1023, 1024, 1025, 5000, 100_000} {
		for _, limit := range []int{0, size - 1, size, size + 1, 10 * size} {
			for _, announced := range []int{-1, size - 1, size, size + 1} {
				if limit < 0 || announced < -1 {
					continue
				}
				b := budget.New(4 * 100_000)
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
	if _, err := budget.New(1<<20).Hold().ReadAll(iotest.ErrReader(broken), 10, 10); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if _, err := budget.New(3000).Hold().ReadAll(bytes.NewReader(make([]byte, 9000)), 9000, 9000); !errors.Is(err, budget.ErrSpent) {
		t.Errorf("got %v", err)
	}
	if got, err := new(budget.Hold).ReadAll(io.LimitReader(bytes.NewReader(make([]byte, 9000)), 8000), -1, 9000); len(got) != 8000 || err != nil {
		t.Errorf("of no budget: got %d, %v", len(got), err)
	}
}
