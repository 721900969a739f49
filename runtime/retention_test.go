package runtime_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/janitor"
	"github.com/batonrun/baton/runtime/retention"
	"github.com/batonrun/baton/storage"
)

const day = 24 * time.Hour

// retire applies the policy p, as if so many days had passed.
func (b *bench) retire(p retention.Retention, days int) []retention.Retired {
	b.t.Helper()
	list, err := b.Retire(context.Background(), b.store.(*storage.DB).Retention, retention.Policy{Retention: p}, time.Now().Add(time.Duration(days)*day))
	must(b.t, err)
	return list
}

// A viewer in the middle of removed events gets a reset, then the thread as it is, and continues with the next
// events. The run keeps its row and messages, and can continue.
func TestReaderCrossesWhatRetentionRemoved(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := open(t, runtime.Config{}, answering("echo", strings.ToUpper))
	first := b.start("main", "echo", "one")
	b.wait(first.RunID, runtime.Completed)
	b.wait(b.start("main", "echo", "two").RunID, runtime.Completed)
	before := b.log("main")
	end := before[len(before)-1].ID

	th := b.found("main")
	cur, err := b.Logs.Read(ctx, th.Handle(), 2, true)
	must(t, err)
	defer cur.Close()

	if got := b.retire(retention.Retention{Events: 7 * day}, 6); len(got) != 0 {
		t.Fatalf("removed early: %+v", got)
	}
	got := b.retire(retention.Retention{Events: 7 * day}, 8)
	if len(got) != 1 || got[0].Stripped != 2 || int64(got[0].Events) != end || got[0].Runs != 0 {
		t.Fatalf("removed %+v, want the %d events of 2 runs", got, end)
	}
	if again := b.retire(retention.Retention{Events: 7 * day}, 8); len(again) != 0 {
		t.Errorf("removed once more: %+v", again)
	}
	next := b.start("main", "echo", "three")
	b.wait(next.RunID, runtime.Completed)

	var seen []*runtime.Record
	for len(seen) == 0 || seen[len(seen)-1].ID <= end || !seen[len(seen)-1].Terminal() {
		recs, err := cur.Next(ctx)
		must(t, err)
		seen = append(seen, recs...)
	}
	custom, ok := seen[0].Event.(agui.Custom)
	if !ok || custom.Name != "log-reset" || string(custom.Value) != fmt.Sprintf(`{"from":3,"to":%d}`, end) || seen[0].ID != 0 || seen[1].ID != 0 || seen[2].ID != end {
		t.Fatalf("the reader gets %d, %d, %d %s", seen[0].ID, seen[1].ID, seen[2].ID, seen[0].JSON(agui.Seed))
	}
	if text := string(seen[2].JSON(agui.Seed)); !strings.Contains(text, "ONE") || !strings.Contains(text, "TWO") {
		t.Errorf("the thread is shown as %s", text)
	}
	for i, rec := range seen[3:] {
		if rec.ID != end+1+int64(i) {
			t.Errorf("event %d follows as number %d behind %d", rec.ID, i, end)
		}
	}

	run, err := b.Runs.Get(ctx, local, first.RunID)
	must(t, err)
	s, err := b.Logs.RunSnapshot(ctx, &run)
	if err != nil || len(s.Messages) != 2 || s.Messages[1].Content != "ONE" || s.After != run.ClosedEvent {
		t.Errorf("the run is shown as %+v, %v", s, err)
	}
	b.appended(first.RunID, "more")
	b.wait(first.RunID, runtime.Completed)
	if all := b.log("main"); all[len(all)-1].ID <= seen[len(seen)-1].ID {
		t.Errorf("the log ends at %d", all[len(all)-1].ID)
	}
}

// TestALookAtWhatIsDueIsBounded limits DueIn by runs and by time.
func TestALookAtWhatIsDueIsBounded(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, answering("echo", strings.ToUpper))
	for n := range 3 {
		b.wait(b.start(fmt.Sprint("main", n), "echo", "one").RunID, runtime.Completed)
	}
	db, late := b.store.(*storage.DB).Retention, time.Now().Add(9*day)
	p := retention.Policy{Projects: map[string]retention.Retention{"default": {Runs: 8 * day}}}
	for _, c := range []struct {
		project    string
		most, runs int
		whole      bool
	}{{"default", 3, 3, true}, {"default", 2, 2, false}, {"other", 3, 0, true}} {
		got, whole, err := retention.DueIn(context.Background(), db, p, c.project, late, c.most)
		if err != nil || got.Runs != c.runs || whole != c.whole || got.Project != c.project {
			t.Errorf("%d runs of %s: %+v, whole: %v, %v", c.most, c.project, got, whole, err)
		}
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if got, whole, err := retention.DueIn(over, db, p, "default", late, 9); err != nil || whole || got.Runs != 0 {
		t.Errorf("in no time: %+v, whole: %v, %v", got, whole, err)
	}
	if list, err := retention.Due(context.Background(), db, p, late); err != nil || len(list) != 1 || list[0].Runs != 3 {
		t.Errorf("nothing was to change: %+v, %v", list, err)
	}
}

// TestRetention_LeavesTurnsToOtherDuties counts the turns of a duty while retention removes many runs.
func TestRetention_LeavesTurnsToOtherDuties(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, answering("echo", strings.ToUpper))
	const runs = 100
	var started []string
	for n := range runs {
		started = append(started, b.start(fmt.Sprint("main", n), "echo", "one").RunID)
	}
	for _, run := range started {
		b.wait(run, runtime.Completed)
	}
	late := time.Now().Add(9 * day)
	removed, turns, done := 0, 0, false
	j := janitor.New(janitor.Config{Begin: late, Log: slog.New(slog.DiscardHandler), Duties: []janitor.Duty{
		{Name: "retention", Every: time.Hour, Do: func(ctx context.Context, now time.Time) error {
			list, err := b.Retire(ctx, b.store.(*storage.DB).Retention, retention.Policy{Retention: retention.Retention{Runs: 8 * day}}, now)
			if done = true; err == nil && len(list) == 1 {
				removed = list[0].Runs
			}
			return err
		}},
		{Name: "other", Every: time.Nanosecond, Do: func(context.Context, time.Time) error {
			if !done {
				turns++
			}
			return nil
		}},
	}})
	for range 100 {
		if late = late.Add(time.Millisecond); done {
			break
		}
		j.Turn(t.Context(), late)
	}
	if removed != runs || turns < 3 {
		t.Errorf("%d runs were removed, and another duty had %d turns meanwhile", removed, turns)
	}
	if lag := b.Stats().RetentionLag; lag != 0 {
		t.Errorf("retention lags %v with nothing to do", lag)
	}
}
