package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// A retracted text no longer holds the turn to speak, also while its worker pauses.
func TestATextThatIsTakenBackHoldsUpNobody(t *testing.T) {
	t.Parallel()
	begun, spoken := make(chan struct{}), make(chan struct{})
	b := open(t, runtime.Config{},
		agent{"tries", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			return agui.WorkerOutput{}, run.Do(ctx, "model", nil, func(ctx context.Context) error {
				if _, err := io.WriteString(run.Text(), "half"); err != nil {
					return err
				}
				if err := run.Retract(ctx); err != nil {
					return err
				}
				close(begun)
				select {
				case <-spoken:
				case <-ctx.Done():
					return ctx.Err()
				}
				return say(run, "whole")
			})
		}},
		agent{"speaks", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			<-begun
			err := say(run, "hello")
			close(spoken)
			return agui.WorkerOutput{}, err
		}},
		plugins.Workflow{Name: "both", Nodes: []plugins.Node{{ID: "a", Agent: "tries"}, {ID: "b", Agent: "speaks"}}},
	)
	s := b.request(runtime.StartRequest{WorkflowID: "both", ThreadID: "main", Messages: user("x")})
	b.wait(s.RunID, runtime.Completed)
}

// eventCounter is a store that counts the events that are read.
type eventCounter struct {
	runtime.Store
	events atomic.Int64
}

func (c *eventCounter) Events(ctx context.Context, thread, after int64, limit int) ([]data.StoredEvent, error) {
	evs, err := c.Store.Events(ctx, thread, after, limit)
	c.events.Add(int64(len(evs)))
	return evs, err
}

// The snapshots behind many retractions of a run read its log once, for a reader at the live end and for one that is behind.
func TestRetractions_FoldTheLogOnce(t *testing.T) {
	t.Parallel()
	const times = 60
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for i := range times {
			if err := run.Do(ctx, fmt.Sprint("kept", i), nil, func(context.Context) error { return say(run, strings.Split(fmt.Sprint("kept ", i), "")...) }); err != nil {
				return agui.WorkerOutput{}, err
			}
			if err := run.Do(ctx, fmt.Sprint("taken", i), nil, func(ctx context.Context) error {
				return errors.Join(say(run, "taken back"), run.Retract(ctx))
			}); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{}, nil
	}}
	b := open(t, runtime.Config{}, worker)
	store := &eventCounter{Store: b.store}
	b.injectStore(store)
	s := b.start("main", "worker", "go")
	b.wait(s.RunID, runtime.Completed)
	recs := b.log("main")
	th := b.found("main")
	for _, live := range []bool{true, false} {
		cur, err := b.Logs.Read(t.Context(), th, 0, true)
		must(t, err)
		defer cur.Close()
		for {
			if _, err := cur.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !live || cur.Waits() {
				break
			}
		}
		store.events.Store(0)
		n := 0
		for _, rec := range recs {
			if !rec.Retracts() {
				continue
			}
			n++
			two, err := cur.Restated(t.Context(), []*runtime.Record{rec})
			if err != nil || len(two) != 2 {
				t.Fatal(two, err)
			}
			msgs := two[1].Event.(agui.MessagesSnapshot).Messages
			if got := msgs[len(msgs)-1].Text(); len(msgs) != n+1 || got != fmt.Sprint("kept ", n-1) {
				t.Errorf("snapshot %d has %d messages, the last %s", n, len(msgs), got)
			}
		}
		if read := int(store.events.Load()); n != times || read > 2*len(recs) {
			t.Errorf("live %v: %d snapshots of %d events read %d", live, n, len(recs), read)
		}
	}
}

// A Do does not retract messages from before it.
func TestRetractLeavesWhatWasSaidBefore(t *testing.T) {
	t.Parallel()
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if _, err := io.WriteString(run.Text(), "before"); err != nil {
			return agui.WorkerOutput{}, err
		}
		return agui.WorkerOutput{}, run.Do(ctx, "answer", nil, func(ctx context.Context) error {
			if err := run.Retract(ctx); err != nil {
				return err
			}
			_, err := io.WriteString(run.Text(), "whole")
			return err
		})
	}}
	b := open(t, runtime.Config{}, worker)
	s := b.start("main", "worker", "go")
	b.wait(s.RunID, runtime.Completed)
	msgs, err := rows(b.Runs.Messages(context.Background(), local, s.RunID, 0, 50))
	if err != nil || texts(msgs) != "go, before, whole" {
		t.Errorf("shown: %s, %v", texts(msgs), err)
	}
	checkLog(t, b.log("main"))
}
