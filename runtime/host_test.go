package runtime_test

import (
	"context"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host/hosttest"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

func TestHost(t *testing.T) {
	t.Parallel()
	hosttest.Run(t, func(t *testing.T, c hosttest.Case) hosttest.Outcome {
		b := open(t, runtime.Config{Limits: runtime.Limits{MaxAttempts: 10}}, append([]plugins.Plugin{c.Agent}, c.Plugins...)...)
		ctx := context.Background()
		s := b.request(runtime.StartRequest{
			Agent: c.Agent.Info().Name, ThreadID: "main", Messages: user("go"), Tools: c.ClientTools,
		})
		for _, text := range c.Next {
			b.appended(s.RunID, text)
		}
		if c.Said != nil {
			c.Said()
		}
		began, events := time.Now(), c.Events
		for {
			for len(events) > 0 && time.Since(began) >= events[0].After {
				_, err := b.SendEvent(ctx, local, s.RunID, runtime.EventRequest{Name: events[0].Name, Payload: events[0].Payload})
				must(t, err)
				events = events[1:]
			}
			select {
			case <-c.Crash:
				b.crash()
			case <-tick():
			}
			run, err := b.Runs.Get(ctx, local, s.RunID)
			must(t, err)
			switch {
			case run.Status == runtime.Waiting && !run.Parked():
				asked, err := b.Runs.Interrupts(ctx, local, s.RunID)
				must(t, err)
				var answers []agui.ResumeEntry
				for _, q := range asked {
					a := agui.ResumeEntry{InterruptID: q.ID, Status: "resolved"}
					given := c.Answer(q)
					if a.Payload = given.Payload; given.Cancelled {
						a.Status = "cancelled"
					}
					answers = append(answers, a)
				}
				if _, err := b.Resume(ctx, local, s.RunID, answers); err != nil {
					t.Fatal(err)
				}
			case run.Status.Final():
				var out hosttest.Outcome
				if run.OutputSummary != nil {
					out.Answer = *run.OutputSummary
				}
				if run.Error != nil {
					out.Code = run.Error.Code
				}
				for _, r := range b.log("main") {
					out.Events = append(out.Events, r.Event)
				}
				th := b.found("main")
				snapshot, err := b.Logs.Snapshot(ctx, th)
				must(t, err)
				out.Messages = snapshot.Messages
				return out
			}
		}
	})
}
