package storage_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/retention"
)

// What has been kept long enough is found and goes: by project, runs or their events alone, sealed ones too. What is still
// open, what ended lately and what the policy keeps for good stays, and the ids of a log go on where they were.
func TestRetention(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	forms := map[string]bool{"plain": false, "sealed": true}
	for name, open := range databases {
		for form, sealed := range forms {
			t.Run(name+"/"+form, func(t *testing.T) {
				db, ctx := open(t), t.Context()
				log := newLog(t, joined(t, db), 1)
				now := time.Now()
				long, lately := now.Add(-9*day), now.Add(-time.Hour)
				projects := []string{"a", "b", "c", "d", "kept"}
				runs := make([]*data.Run, len(projects))
				var events []data.StoredEvent
				var list []data.Row
				for i, project := range projects {
					thread, run, rows := log.newRun(t)
					thread.Project, run.Project, run.CreatedAt, run.Status, run.FinishedAt = project, project, long, data.Completed, &long
					thread.LastEventID, thread.UpdatedAt = 5, long
					switch project {
					case "c":
						run.Status, run.FinishedAt = data.Waiting, nil
					case "d":
						run.FinishedAt = &lately
					}
					for id := int64(1); id <= 5; id++ {
						events = append(events, data.StoredEvent{ThreadKey: thread.Key, ID: id, RunKey: run.Key, Kind: agui.TypeCustom, Payload: payload})
					}
					m := &data.Message{ThreadKey: thread.Key, RunKey: run.Key, Seq: 1, State: data.MessageConsumed, CreatedAt: long}
					m.ID, m.Role, m.Content = "m", agui.RoleUser, "hello"
					runs[i], list = run, append(append(list, rows...), m, &data.SpanEnd{RunKey: run.Key, N: 1, Last: 5})
				}
				log.commit(t, events, list...)
				if sealed {
					if n, err := db.Retention.Seal(ctx, now.Add(72*time.Hour)); err != nil || n < 25 {
						t.Fatalf("%d events are sealed, %v", n, err)
					}
				}

				policy := retention.Policy{Retention: retention.Retention{Events: 7 * day}, Projects: map[string]retention.Retention{
					"b": {Runs: 7 * day, Events: 3 * day}, "kept": {},
				}}
				dry, err := retention.Due(ctx, db.Retention, policy, now)
				must(t, err)
				for i := range dry {
					if dry[i].Bytes <= 0 {
						t.Errorf("%s has %d bytes", dry[i].Project, dry[i].Bytes)
					}
					dry[i].Bytes = 0
				}
				if diff := cmp.Diff([]retention.Retired{{Project: "a", Stripped: 1, Events: 5}, {Project: "b", Runs: 1, Events: 5}}, dry); diff != "" {
					t.Fatalf("it would remove (-want +got):\n%s", diff)
				}
				if got := readLog(t, db, runs[0].ThreadKey, 500); len(got) != 5 {
					t.Errorf("a dry run left %d events", len(got))
				}
				must(t, db.Members().Leave(ctx))
				for range 2 { // the second finds nothing
					done, err := retention.Alone(ctx, db, db.Registry.Unused, db.Retention, policy, now)
					if err != nil || len(done) != len(dry) {
						t.Fatalf("removed %+v, %v", done, err)
					}
					dry = nil
				}
				for i, run := range runs {
					want := 5
					if i < 2 {
						want = 0
					}
					if got := readLog(t, db, run.ThreadKey, 500); len(got) != want {
						t.Errorf("%d events of %s are left, want %d", len(got), run.Project, want)
					}
					if last, err := db.LastEventID(ctx, run.ThreadKey); err != nil || last != 5 {
						t.Errorf("the log of %s goes on behind %d, %v", run.Project, last, err)
					}
				}
				for i, run := range runs {
					_, err := db.Run(ctx, run.Key)
					if gone := i == 1; gone != errors.Is(err, data.ErrNotFound) {
						t.Errorf("run of %s: %v", run.Project, err)
					}
					p, err := db.ByProject().RunMessages(ctx, run.Project, run.Key, 0, 10)
					if gone := i == 1; err != nil || gone != (len(p.Rows) == 0) {
						t.Errorf("run of %s has %d messages, %v", run.Project, len(p.Rows), err)
					}
				}
			})
		}
	}
}

// The audit of a project goes by its own days.
func TestAuditIsForgottenByProject(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, open := range databases {
		t.Run(name, func(t *testing.T) {
			db, ctx, now := open(t), t.Context(), time.Now()
			log := newLog(t, joined(t, db), 1)
			var list []data.Row
			for i := range 2100 {
				for _, project := range []string{"p", "q"} {
					list = append(list, &data.Audit{Project: project, Action: "start", At: now.Add(time.Duration(i-2100) * time.Hour)})
				}
			}
			log.commit(t, nil, list...)
			policy := retention.Policy{Projects: map[string]retention.Retention{"p": {Audit: day}}}
			dry, err := retention.Due(ctx, db.Retention, policy, now.Add(time.Minute))
			if err != nil || len(dry) != 1 || dry[0].Audit != 2077 {
				t.Fatalf("%+v, %v", dry, err)
			}
			n, err := db.Retention.ForgetAudit(ctx, "p", now.Add(time.Minute-day), false)
			if err != nil || n != 2077 {
				t.Errorf("%d are gone, %v", n, err)
			}
			for project, want := range map[string]int{"p": 23, "q": 2100} {
				p, err := db.ByProject().Audit(ctx, data.AuditFilter{Project: project, Count: true})
				if err != nil || p.Total != want {
					t.Errorf("%s has %d, %v", project, p.Total, err)
				}
			}
		})
	}
}
