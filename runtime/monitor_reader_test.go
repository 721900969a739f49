package runtime_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// board holds the agents' states like a client.
type board struct {
	t   *testing.T
	doc []byte
}

func (b *board) apply(event []byte) {
	var d struct {
		Type     string
		Snapshot json.RawMessage
		Delta    json.RawMessage
	}
	if err := json.Unmarshal(event, &d); err != nil {
		b.t.Errorf("%v in %s", err, event)
	}
	switch d.Type {
	case "STATE_SNAPSHOT":
		b.doc = d.Snapshot
	case "STATE_DELTA":
		patch, err := jsonpatch.DecodePatch(d.Delta)
		must(b.t, err)
		next, err := patch.Apply(b.doc)
		if err != nil {
			b.t.Errorf("%s does not apply to %s: %v", d.Delta, b.doc, err)
		} else if bytes.Equal(next, b.doc) {
			b.t.Errorf("%s changes nothing in %s", d.Delta, b.doc)
		}
		b.doc = next
	}
}

func TestDeltasAlwaysApply(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	n := func(n int) int { mu.Lock(); defer mu.Unlock(); return rnd.IntN(n) }
	work := func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for range n(4) {
			if err := say(run, "x"); err != nil {
				return agui.WorkerOutput{}, err
			}
			if run.Input.Execution > 0 && n(3) == 0 {
				_, _ = run.CallAgent(ctx, "c", "x")
			}
		}
		switch n(6) {
		case 0:
			return agui.WorkerOutput{}, errors.New("failed")
		case 1:
			return agui.WorkerOutput{}, hang(ctx)
		}
		return agui.WorkerOutput{Answer: "ok"}, nil
	}
	leaf := agent{"c", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{Answer: "c"}, nil
	}}
	b := open(t, runtime.Config{}, agent{"a", work}, agent{"b", work}, leaf, waiting,
		plugins.Workflow{Name: "w", Nodes: []plugins.Node{{ID: "a", Agent: "a"}, {ID: "b", Agent: "b"}, {ID: "q", Agent: "asker"}, {ID: "c", Agent: "c", Needs: []string{"a"}}}})
	ctx, stop := context.WithCancel(context.Background())
	var readers, runs sync.WaitGroup
	boards := make([]*board, 20)
	follow := func(k int) {
		q := runtime.MonitorQuery{View: runtime.AGUIView}
		w := b.watch(local, q)
		boards[k] = &board{t: t}
		boards[k].apply(w.Snapshot())
		readers.Go(func() {
			for {
				notices, err := w.Next(ctx)
				if err != nil {
					return
				}
				for _, n := range notices {
					boards[k].apply(n.JSON(q.View))
				}
			}
		})
	}
	for k := range boards {
		follow(k)
		for i := range 4 {
			runs.Go(func() {
				s := b.startWorkflow(fmt.Sprint(k, " ", i), "w", "x")
				if n(2) == 0 {
					b.wait(s.RunID, runtime.Running, runtime.Waiting, runtime.Failed, runtime.Completed)
				}
				_, _ = b.Cancel(ctx, local, s.RunID)
				b.wait(s.RunID, runtime.Cancelled, runtime.Failed, runtime.Completed)
			})
		}
	}
	runs.Wait()
	b.expect()
	want := &board{t: t}
	want.apply(b.watch(local, runtime.MonitorQuery{View: runtime.AGUIView}).Snapshot())
	stop() // they still read the remaining notices
	readers.Wait()
	for k, got := range boards {
		if !jsonpatch.Equal(got.doc, want.doc) {
			t.Errorf("reader %d has %s, want %s", k, got.doc, want.doc)
		}
	}
}
