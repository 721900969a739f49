package fanout

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/tail"
)

// pages is a cursor that returns a page a second, and then waits.
type pages struct {
	Cursor
	left [][]*runtime.Record
}

func (p *pages) Next(ctx context.Context) ([]*runtime.Record, error) {
	wait := time.Hour
	if len(p.left) > 0 {
		wait = time.Second
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	page := p.left[0]
	p.left = p.left[1:]
	return page, nil
}

func delta(size int) *runtime.Record {
	return tail.NewRecord(1, 1, agui.TextMessageContent{MessageID: "m", Delta: "x"}, size)
}

func TestGather(t *testing.T) {
	t.Parallel()
	end := tail.NewRecord(2, 1, agui.RunFinished{}, 1)
	for name, c := range map[string]struct {
		first []*runtime.Record
		later [][]*runtime.Record
		until time.Duration
		want  int // records
		took  time.Duration
	}{
		"until the time is up":   {[]*runtime.Record{delta(1)}, [][]*runtime.Record{{delta(1)}, {delta(1)}}, 1500 * time.Millisecond, 2, 1500 * time.Millisecond},
		"until a span ends":      {[]*runtime.Record{delta(1)}, [][]*runtime.Record{{end}, {delta(1)}}, time.Minute, 2, time.Second},
		"until a batch is large": {[]*runtime.Record{delta(1)}, [][]*runtime.Record{{delta(large)}, {delta(1)}}, time.Minute, 2, time.Second},
		"not after the end":      {[]*runtime.Record{end}, [][]*runtime.Record{{delta(1)}}, time.Minute, 1, 0},
		"not if the time is up":  {[]*runtime.Record{delta(1)}, [][]*runtime.Record{{delta(1)}}, 0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				got := gather(t.Context(), &pages{left: c.later}, c.first, began.Add(c.until))
				if took := time.Since(began); len(got) != c.want || took != c.took {
					t.Errorf("%d records after %v, want %d after %v", len(got), took, c.want, c.took)
				}
			})
		})
	}
}
