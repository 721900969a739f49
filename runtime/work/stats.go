package work

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/batonrun/baton/runtime/budget"
	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/exec"
	"github.com/batonrun/baton/runtime/observe"
	"github.com/batonrun/baton/runtime/queue"
)

// Stats holds an engine's current activity, and its counts since it began.
type Stats struct {
	Queued, Running, Waiting, Parked int           // runs; a parked one is not Waiting
	OldestQueued                     time.Duration // how long the first run that may begin has been queued, on all servers
	Lingering                        int           // workers and tools that were abandoned and have not returned
	Asked, Said                      int64         // bytes in memory of the inputs and of the messages of running runs, small ones not counted

	AbandonedAgents, AbandonedTools int64 // workers and tools that were abandoned so far
	Fenced                          int64 // commits refused because another instance has the database
	Repaired                        int64 // see RepairQueue

	Link bus.Stats // to other servers of the database
}

// Stats returns the engine's current activity and counts.
func (en *Engine) Stats() Stats {
	s := Stats{
		Running: en.runs.count(), Lingering: int(en.exec.Counts.Lingering.Load()),
		AbandonedAgents: en.exec.Counts.Agents.Load(), AbandonedTools: en.exec.Counts.Tools.Load(), Fenced: en.fences.Load(), Repaired: en.repaired.Load(),
	}
	s.Link = en.link.Stats()
	s.Asked, s.Said = en.Queue.Bytes()
	s.Queued = en.Queue.Queued("", "").All
	ctx, cancel := context.WithTimeout(en.abandoned, time.Second)
	defer cancel()
	if b, err := en.store.Queue().Backlog(ctx); err == nil { // otherwise readiness tells
		s.Waiting, s.Parked = b.Waiting, b.Parked
		if !b.Oldest.IsZero() {
			s.OldestQueued = max(time.Since(b.Oldest), 0)
		}
	}
	return s
}

// WaitOf returns why a run is QUEUED, has no slot, or waits without a question, or nil. A QUEUED run that is about to begin has no reason, nor has an executing
// one whose tools alone wait. It reads the queue as it is now; a database that does not answer gives no reason.
func (en *Engine) WaitOf(ctx context.Context, run *data.RunHead) *queue.Wait {
	if since, is := en.Fleet.Missing(run); is {
		return &queue.Wait{Reason: "no_server", Since: since, Until: since.Add(en.cfg.AgentGone)}
	}
	switch run.Status {
	case data.Queued:
		return en.Queue.WaitOf(ctx, run)
	case data.Waiting:
		if w := run.Waits; w != nil {
			return &queue.Wait{Reason: string(w.All[0].Kind), Name: w.All[0].Name, Since: w.Since, Until: w.Due}
		}
	case data.Running:
		if l := en.runs.of(run.Key); l != nil {
			return l.Rests.Wait()
		}
	}
	return nil
}

// logOutcome logs and measures the effects of a decision on runs.
func (en *Engine) logOutcome(it *commit.Item) {
	out := it.Out
	for i := range out.Moves {
		m := &out.Moves[i]
		run := &m.Run
		who := append(make([]slog.Attr, 0, 8),
			slog.String("run", run.ID), slog.String("thread", out.Name), slog.String("user", run.User), slog.String("project", run.Project),
			slog.String("agent", run.WorkflowID))
		if finish, ok := it.Command.(*decide.Finish); ok && finish.Run == run.Key {
			who = append(who, slog.Group("", observe.TraceOf(finish.Trace)...))
		} else if l := en.runs.of(run.Key); l != nil { // others are not read for it
			who = append(who, slog.Group("", observe.TraceOf(l.Input.Trace)...))
		}
		level := slog.LevelInfo
		say := func(what string, more ...slog.Attr) {
			en.log.LogAttrs(context.Background(), level, what, append(who, more...)...)
		}
		switch {
		case m.To == data.Running:
			waited := out.At.Sub(run.QueuedAt)
			if measure := en.cfg.Measures.Claimed; measure != nil {
				measure(max(waited, 0))
			}
			say("run starts", slog.Int("generation", run.Generation), slog.String("queued", waited.Round(time.Millisecond).String()))
		case m.To == data.Waiting:
			say("run waits for an answer")
		case m.To.Final():
			took := out.At.Sub(run.CreatedAt)
			if measure := en.cfg.Measures.Ended; measure != nil {
				measure(m.To, max(took, 0))
			}
			end := []slog.Attr{slog.String("status", string(m.To)), slog.String("took", took.Round(time.Millisecond).String())}
			what := "run ends"
			if m.To != data.Completed {
				level = LevelNotice
			}
			if e := run.Error; e != nil {
				end = append(end, slog.String("code", e.Code), slog.Any("message", errors.New(data.Clip(e.Message, maxLogged)))) // an error loses the secrets of its URLs
				if finish, ok := it.Command.(*decide.Finish); ok && finish.Node != "" {
					end = append(end, slog.String("node", finish.Node))
				}
				if e.Code != budget.Exceeded {
					what, level = "run fails", slog.LevelWarn
					end = append(end, slog.String("help", cureOf(run)))
				}
			}
			say(what, end...)
		}
	}
}

// LevelNotice is the log's level of intended ends: a cancelled run, and one with an exhausted budget.
const LevelNotice = slog.LevelInfo + 2

const maxLogged = 1000 // bytes of an error's message

// cureOf returns advice about a failed run.
func cureOf(run *data.RunHead) string {
	switch run.Error.Code {
	case "timeout":
		return "raise timeouts.run or timeouts.step, or the timeout of the agent or node"
	case "crash_loop":
		return "the run has ended its server, or its agent's program, again and again; the log before each such end shows how"
	case "agent_failed", "panic":
		return "the line \"agent failed\" of this run has the cause"
	case "replay_mismatch":
		return "the worker's code has changed while the run was open, or it decides by something that is not recorded; start the run again"
	}
	return "baton watch " + run.ID + " shows what the run has done"
}

// about returns a logger that names a run, its user, project, thread and trace on each line: the names of runs and threads are
// unique only with their user. It reads the run, so it is for rare lines.
func (en *Engine) about(head *data.RunHead) *slog.Logger {
	run, err := en.store.Run(en.abandoned, head.Key)
	if err != nil {
		return en.log.With("run", head.ID, "user", head.User, "project", head.Project, "threadKey", head.ThreadKey)
	}
	return exec.About(en.log, &run)
}

// BudgetsOf returns the budgets of a project with their use by all instances, as it was last read.
func (en *Engine) BudgetsOf(project, user string) []data.BudgetState {
	now := time.Now()
	if en.shared {
		en.logUnshared(en.Budget.Load(en.abandoned, project, now))
	}
	return en.Budget.InProject(project, user, now)
}
