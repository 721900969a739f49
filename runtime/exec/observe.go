package exec

import (
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/calls"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/observe"
)

// About returns a logger that names the same of a run that was read.
func About(log *slog.Logger, run *data.Run) *slog.Logger {
	var in Input
	_ = json.Unmarshal(run.Input, &in) // without a trace if it cannot be read
	return log.With("run", run.ID, "user", run.User, "project", run.Project, "thread", run.ThreadID).With(observe.TraceOf(in.Trace)...)
}

func (l *Live) log() *slog.Logger {
	log := l.cfg.Log.With("run", l.run.ID, "thread", l.out.span.Thread.ID, "user", l.run.User, "project", l.run.Project)
	return log.With(observe.TraceOf(l.input.Trace)...)
}

func (l *Live) op(kind observe.OpKind, name, id string) observe.Op {
	return observe.Op{Kind: kind, Name: name, ID: id, Run: l.run.ID, Thread: l.out.span.Thread.ID, Project: l.run.Project}
}

// endOf returns the end of an operation that err has failed. Waiting for an answer is no failure.
func endOf(err error) observe.End {
	switch shown, ok := errors.AsType[*plugins.Error](err); {
	case err == nil, errors.Is(err, plugins.ErrWaiting):
		return observe.End{}
	case ok:
		return observe.End{Err: err, Code: shown.Code}
	case errors.Is(err, calls.ErrTimeout):
		return observe.End{Err: err, Code: "timeout"}
	}
	return observe.End{Err: err, Code: "failed"}
}
