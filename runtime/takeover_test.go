package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
)

// meddle changes stored data as another instance, which fences the running one.
func (b *bench) meddle(change func(s runtime.Store) ([]runtime.StoredEvent, []runtime.Row)) {
	b.t.Helper()
	db, err := storage.Open(context.Background(), storage.Config{URL: "sqlite:" + b.path})
	if err != nil {
		b.t.Fatal(err)
	}
	err = db.Members().Join(context.Background(), "meddler", "")
	if err == nil {
		evs, rows := change(db)
		err = db.Commit(context.Background(), 1, &data.Batch{Events: evs, Rows: rows})
	}
	if err := errors.Join(err, db.Close()); err != nil {
		b.t.Fatal(err)
	}
}

// The stored start of a run may become invalid: for example its definition, when the rules for expressions change.
var illegible = map[string]string{
	"definition": `definition = '{"Name":"flow","Nodes":[{"ID":"a","Agent":"worker","When":"nobody.knows("}]}'`,
	"input":      `input = '{"tools":7}'`,
}

// spoil changes the stored start of a run.
func (b *bench) spoil(key int64, change string) {
	b.t.Helper()
	b.exec(fmt.Sprintf("UPDATE run_inputs SET %s WHERE run_key = %d", change, key))
}

func TestIllegibleRunFailsWhenItIsTakenOver(t *testing.T) {
	t.Parallel()
	for what, spoil := range illegible {
		entered := make(chan struct{}, 1)
		worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			if run.Input.Query == "again" {
				return agui.WorkerOutput{Answer: "fine"}, nil
			}
			_ = run.Do(ctx, "say", nil, func(context.Context) error { return say(run, "hi") })
			entered <- struct{}{}
			return agui.WorkerOutput{}, hang(ctx)
		}}
		b := open(t, runtime.Config{}, worker, plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "a", Agent: "worker"}}})
		s := b.startWorkflow("main", "flow", "go")
		<-entered
		b.spoil(s.RunKey, spoil)
		b.crash()
		run := b.wait(s.RunID, runtime.Failed)
		if run.Error == nil || run.Error.Code != "definition_invalid" {
			t.Errorf("%s: error %+v", what, run.Error)
		}
		steps, err := rows(b.Runs.Steps(t.Context(), local, s.RunID, "", 0, 10))
		if err != nil || len(steps) != 1 || steps[0].Status != runtime.Failed {
			t.Errorf("%s: steps %+v, %v", what, steps, err)
		}
		b.wait(b.startWorkflow("main", "flow", "again").RunID, runtime.Completed)
		checkLog(t, b.log("main"))
	}
}

// traced is a tracer in whose trace every request is.
type traced struct{ watched }

const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"

func (*traced) Parent(context.Context) string { return "00-" + traceID + "-00f067aa0ba902b7-01" }

// Each line of the log about a run names its trace, whether the run is executed or not.
func TestLog_NamesTrace(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{}, 1)
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		entered <- struct{}{}
		return agui.WorkerOutput{}, hang(ctx)
	}}
	var log lines
	b := open(t, runtime.Config{Tracer: &traced{}, Log: slog.New(slog.NewTextHandler(&log, nil))}, worker, hello, plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "a", Agent: "worker"}}})
	s := b.startWorkflow("main", "flow", "go")
	<-entered
	b.spoil(s.RunKey, illegible["definition"])
	b.crash()
	b.wait(s.RunID, runtime.Failed)
	b.wait(b.start("other", "hello", "x").RunID, runtime.Completed)
	b.down()
	for _, line := range []string{"run starts", "run fails", "run ends"} {
		if !log.has(`msg="`+line+`"`, "trace_id="+traceID) {
			t.Errorf("no line %q with the trace in\n%s", line, log.String())
		}
	}
}

// lines is a log.
type lines struct {
	mu   sync.Mutex // guards the field below
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// has reports whether a line has all words.
func (l *lines) has(words ...string) bool {
	return slices.ContainsFunc(strings.Split(l.String(), "\n"), func(line string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) })
	})
}

func TestIllegibleRunIsCancelledAndDeleted(t *testing.T) {
	t.Parallel()
	for what, spoil := range illegible {
		gate := make(chan struct{})
		asker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			if run.Input.Query == "done" {
				return agui.WorkerOutput{Answer: "done"}, nil
			}
			_, err := run.Ask(ctx, agui.Interrupt{Message: "ok?"})
			return agui.WorkerOutput{}, err
		}}
		b := open(t, runtime.Config{Limits: runtime.Limits{Runs: 1}}, asker, gated(gate), plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "a", Agent: "worker"}}})
		waiting := b.startWorkflow("waiting", "flow", "ask")
		b.wait(waiting.RunID, runtime.Waiting)
		queued := b.startWorkflow("queued", "flow", "done") // restarts once a slot is free
		b.wait(queued.RunID, runtime.Completed)
		ahead := b.wait(b.start("ahead", "gated", "x").RunID, runtime.Running)
		b.appended(queued.RunID, "once more")
		b.spoil(waiting.RunKey, spoil)
		b.spoil(queued.RunKey, spoil)
		b.crash()
		for _, s := range []runtime.Started{waiting, queued} {
			if run, err := b.Cancel(t.Context(), local, s.RunID); err != nil || run.Status != runtime.Cancelled {
				t.Errorf("%s: %s is %s, %v", what, s.ThreadID, run.Status, err)
			}
		}
		close(gate)
		b.wait(ahead.ID, runtime.Completed)
		for _, s := range []runtime.Started{waiting, queued} {
			checkLog(t, b.log(s.ThreadID))
			if err := b.DeleteThread(t.Context(), local, s.ThreadID); err != nil {
				t.Errorf("%s: delete %s: %v", what, s.ThreadID, err)
			}
		}
	}
}

// A running run ends properly, even if most of its stored data is missing.
func TestRunThatCannotBeReadBackFails(t *testing.T) {
	t.Parallel()
	follows := func(last int64, run *data.Run, kind agui.Type, members string) []runtime.StoredEvent {
		return []runtime.StoredEvent{{ThreadKey: run.ThreadKey, RunKey: run.Key, ID: last + 1, Kind: kind, Payload: fmt.Appendf(nil, `{"type":%q,"threadId":"main","runId":%q,"timestamp":1,%s}`, kind, run.ID, members)}}
	}
	cases := map[string]func(last, key int64, run *data.Run) ([]runtime.StoredEvent, []runtime.Row){
		"an event that cannot follow": func(last, _ int64, run *data.Run) ([]runtime.StoredEvent, []runtime.Row) {
			return follows(last, run, agui.TypeStepFinished, `"stepName":"none"`), nil
		},
		"a span that has ended": func(last, _ int64, run *data.Run) ([]runtime.StoredEvent, []runtime.Row) {
			end := &data.SpanEnd{RunKey: run.Key, N: 1, Last: last + 1}
			return follows(last, run, agui.TypeRunError, `"message":"over","code":"over"`), []runtime.Row{end}
		},
		"no span at all": func(last, key int64, run *data.Run) ([]runtime.StoredEvent, []runtime.Row) {
			bare := *run
			bare.Key, bare.ID, bare.Spans = key, "bare", 0
			run.Status, run.Owner = runtime.Cancelled, ""
			return nil, []runtime.Row{
				&run.RunHead, &data.SpanEnd{RunKey: run.Key, N: 1, Last: last},
				&bare, &data.RunName{RunKey: key, Project: bare.Project, User: bare.User, Name: bare.ID},
			}
		},
	}
	for what, damage := range cases {
		t.Run(what, func(t *testing.T) {
			entered := make(chan struct{}, 2)
			worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
				_ = run.Do(ctx, "stored", nil, func(context.Context) error { return nil })
				entered <- struct{}{}
				return agui.WorkerOutput{}, hang(ctx)
			}}
			b := open(t, runtime.Config{Limits: runtime.Limits{Drain: 1}}, worker, hello)
			s := b.start("main", "worker", "go")
			<-entered
			b.meddle(func(r runtime.Store) ([]runtime.StoredEvent, []runtime.Row) {
				run, err := r.Run(t.Context(), s.RunKey)
				if err != nil {
					t.Fatal(err)
				}
				last, err := r.LastEventID(t.Context(), run.ThreadKey)
				if err != nil {
					t.Fatal(err)
				}
				key, err := r.NewRunKey(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return damage(last, key, &run)
			})
			name := s.RunID
			if what == "no span at all" {
				name = "bare"
			}
			b.crash()
			run := b.wait(name, runtime.Failed)
			if run.Error == nil || run.Error.Code != "unreadable" {
				t.Errorf("error %+v", run.Error)
			}
			if steps, err := rows(b.Runs.Steps(t.Context(), local, name, "", 0, 10)); err != nil || len(steps) == 1 && steps[0].Status != runtime.Failed {
				t.Errorf("steps %+v, %v", steps, err)
			}
			b.wait(b.start("main", "hello", "again").RunID, runtime.Completed)
			for i, r := range b.log("main") { // the changed events are not legal
				if r.ID != int64(i+1) {
					t.Fatalf("record %d has id %d", i+1, r.ID)
				}
			}
		})
	}
}

func TestStepsAreNumberedBehindAllEarlierOnes(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, hello)
	s := b.start("main", "hello", "x")
	b.wait(s.RunID, runtime.Completed)
	const many = 10_001 // more than the runtime counts
	b.meddle(func(runtime.Store) ([]runtime.StoredEvent, []runtime.Row) {
		var rows []runtime.Row
		for n := 2; n <= many; n++ {
			rows = append(rows, &runtime.Step{
				RunKey: s.RunKey, Number: n, ID: fmt.Sprint(n), Generation: 1, NodeID: "hello", Name: "hello", Execution: n,
				Status: runtime.Completed, StartedAt: time.Now(),
			})
		}
		return nil, rows
	})
	b.crash()
	b.appended(s.RunID, "again")
	b.wait(s.RunID, runtime.Completed)
	steps, err := rows(b.Runs.Steps(t.Context(), local, s.RunID, "", many-2, 10))
	if err != nil || len(steps) != 3 || steps[1].Execution != many || steps[2].Number != many+1 || steps[2].Generation != 2 {
		t.Errorf("the last steps are %+v, %v", steps, err)
	}
}

// A run may have more messages than a prompt takes.
func TestTakeOverKeepsTheNumbersOfAllMessages(t *testing.T) {
	t.Parallel()
	const many = 2100
	entered := make(chan struct{}, 3)
	leave := make(chan struct{})
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		err := run.Do(ctx, "say", nil, func(context.Context) error {
			for range many {
				if err := say(run, "x"); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		_, _ = run.Text().Write([]byte("cut short"))
		_ = run.Do(ctx, "stored", nil, func(context.Context) error { return nil }) // waits for its commit, and ends no text
		entered <- struct{}{}
		select {
		case <-ctx.Done():
			return agui.WorkerOutput{}, context.Cause(ctx)
		case <-leave:
			return agui.WorkerOutput{}, nil
		}
	}}
	b := open(t, runtime.Config{}, worker)
	s := b.start("main", "worker", "go")
	for range 2 { // the second execution finds a hidden message of the first
		<-entered
		b.crash()
	}
	<-entered
	th := b.found("main")
	snap, err := b.Logs.Snapshot(t.Context(), th)
	if err != nil {
		t.Fatal(err)
	}
	cut := 0
	for _, m := range snap.Messages {
		if strings.HasPrefix(m.Content, "cut") {
			cut++
		}
	}
	if cut != 1 {
		t.Errorf("a viewer who comes now sees %d of the messages that were cut short, want the one that is open", cut)
	}
	close(leave)
	b.wait(s.RunID, runtime.Completed)
	seqs := make(map[int64]string)
	for seq := int64(0); ; {
		msgs, err := b.store.ByProject().History(t.Context(), th.Project, th.Key, snap.Run.CreatedAt, seq, 500)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range msgs.Rows {
			seqs[m.Seq], seq = m.ID, m.Seq
		}
		if !msgs.More {
			break
		}
	}
	if last, err := b.store.LastSeq(t.Context(), th.Key); err != nil || last != many+4 || len(seqs) != many+2 {
		t.Errorf("%d messages are shown and the last is %d, want %d and %d; %v", len(seqs), last, many+2, many+4, err)
	}
	checkLog(t, b.log("main"))
}
