package exec

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/plugins/tools"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/observe"
	"github.com/batonrun/baton/runtime/offer"
	"github.com/batonrun/baton/runtime/queue"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/runtime/tail"
)

// fake is an engine and its database: it has the rows that a run has written, and decides every end.
type fake struct {
	data.Store
	wg     sync.WaitGroup
	rows   []data.Row
	events []data.StoredEvent
	ends   []*decide.Finish
}

func (f *fake) Begin(l *Live)        { f.wg.Go(l.Execute) }
func (f *fake) Forget(l *Live)       { l.Over() }
func (f *fake) Declines(*Live) bool  { return false }
func (f *fake) HandsOver(*Live) bool { return false }
func (f *fake) Go(do func())         { f.wg.Go(do) }
func (f *fake) Rest() bool           { return false }

func (f *fake) Decide(it *commit.Item) error {
	f.ends = append(f.ends, it.Command.(*decide.Finish))
	it.Then(new(decide.Decided))
	return nil
}

func (f *fake) Commit(_ context.Context, _ int64, b *data.Batch) error {
	f.rows, f.events = append(f.rows, b.Rows...), append(f.events, b.Events...)
	return nil
}

func (f *fake) Weight(context.Context, int64, int64) (data.Weight, error) { return data.Weight{}, nil }

// queueOn returns a running commit queue.
func queueOn(t *testing.T, f *fake, log *slog.Logger) *commit.Queue {
	t.Helper()
	commits := commit.New(commit.Config{
		Store: f, Log: log, Heartbeat: time.Hour, Patience: time.Minute, RunBytes: 1 << 20, Bytes: 1 << 20, BatchEvents: 100, BatchBytes: 1 << 20,
		Live: func() int { return 1 }, Queued: func(string, string) data.InQueue { return data.InQueue{} }, Show: func([]*commit.Item) {}, Lost: func(error) {},
	})
	go commits.Run(t.Context())
	t.Cleanup(commits.Finish)
	return commits
}

// begin has a run executed by an agent that may call tools.
func begin(t *testing.T, work func(context.Context, *plugins.Run) error) (*fake, *Live) {
	t.Helper()
	f, log := new(fake), slog.New(slog.DiscardHandler)
	reg := new(host.Registry)
	if err := reg.Add(plugins.AgentFunc("a", work), tools.Calculator{}, tools.Stubborn{}); err != nil {
		t.Fatal(err)
	}
	offers, err := offer.New(reg, false, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	commits := queueOn(t, f, log)
	room := quota.Limits{Total: 1 << 20, PerProject: 1 << 20, PerUser: 1 << 20}
	runs := queue.New(queue.Config{Store: f, Slots: room, Asked: room, Said: room, LightBytes: 1 << 10, OwnLimit: func(string) int { return 0 }})
	cfg := &Config{
		Engine: f, Commits: commits, Queue: runs, Logs: tail.New(tail.Config{}), Offers: offers, Log: log, Tracer: observe.Untraced(), Abandoned: t.Context(), EventBytes: 1 << 20, FrameBytes: 1 << 20, StateBytes: 1 << 20, RunMessages: 1 << 20, MaxAttempts: 3,
		StepTimeout: time.Hour, RunTimeout: time.Hour, ToolTimeout: time.Hour, Grace: time.Second,
	}
	run := &data.Run{RunHead: data.RunHead{Key: 1, ID: "r", ThreadKey: 1, Agent: "a", WorkflowID: "a", Generation: 1, ClaimedAt: new(time.Now())}, Input: []byte("{}")}
	reserved, err := runs.Reserve(t.Context(), &run.RunHead)
	if err != nil {
		t.Fatal(err)
	}
	l := New(cfg, run)
	asked := []data.Message{{Message: agui.Message{ID: "m", Role: agui.RoleUser, Content: "Hello?"}, ThreadKey: 1, RunKey: 1}}
	it, err := l.Claim(t.Context(), &data.Thread{ThreadHead: data.ThreadHead{Key: 1, ID: "t"}}, run, asked, reserved)
	if err != nil {
		t.Fatal(err)
	}
	l.History.HasAll(asked)
	it.Then(&decide.Decided{Run: run.RunHead})
	return f, l
}

func TestLive_EndsAfterItsStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, l := begin(t, func(_ context.Context, run *plugins.Run) error {
			_, err := run.Text().Write([]byte("Hello."))
			return err
		})
		if err := l.AwaitEnd(); err != nil || len(f.ends) != 1 || f.ends[0].To != data.Completed {
			t.Errorf("its ends are %+v, %v", f.ends, err)
		}
	})
}

// A second call of a tool at one place has a record of its own.
func TestLive_RecordsEachCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, l := begin(t, func(ctx context.Context, run *plugins.Run) error {
			for _, sum := range []string{"1+1", "2+2"} {
				if _, err := run.CallTool(ctx, "calculator", map[string]string{"expression": sum}); err != nil {
					return err
				}
			}
			return nil
		})
		err := l.AwaitEnd()
		var got []string
		for _, row := range f.rows {
			if m, ok := row.(*data.Memo); ok && m.Tool != "" && m.Done {
				var out agui.ToolOutput
				err = errors.Join(err, json.Unmarshal(m.Output, &out))
				got = append(got, m.Place+" "+out.ResultSummary)
			}
		}
		if want := []string{"tool:calculator#1 2", "tool:calculator#2 4"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("the records are %q, want %q: %v", got, want, err)
		}
	})
}

// A cancelled run ends at once. A tool that ignores this is abandoned, and the run keeps its slot until the tool returns.
func TestLive_CancelDoesNotWaitForATool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f, l := begin(t, func(ctx context.Context, run *plugins.Run) error {
			_, err := run.CallTool(ctx, "stubborn", map[string]int{"ms": 60_000})
			return err
		})
		<-time.After(time.Second)
		err := l.End(CancelledBy(decide.By{}))
		if took := time.Since(began); err != nil || took != time.Second || f.ends[0].To != data.Cancelled {
			t.Errorf("it ends after %v as %s, %v", took, f.ends[0].To, err)
		}
		if err := l.End(CancelledBy(decide.By{})); !errors.Is(err, decide.ErrSettled) {
			t.Errorf("it ends again: %v", err)
		}
		f.wg.Wait()
		if took := time.Since(began); took != time.Minute || l.cfg.Counts.Tools.Load() != 1 || l.cfg.Counts.Lingering.Load() != 0 {
			t.Errorf("its goroutines end after %v, %d tools were abandoned", took, l.cfg.Counts.Tools.Load())
		}
	})
}
