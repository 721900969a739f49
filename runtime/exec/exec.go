// Package exec has one run at work: it calls the run's workers, records each use under its place in the worker's code, and opens, repairs and
// ends the run's spans. Only here is a run more than its rows. When a run begins here, and which runs do, is decided above it.
package exec

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/batonrun/baton/runtime/budget"
	"github.com/batonrun/baton/runtime/calls"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/observe"
	"github.com/batonrun/baton/runtime/offer"
	"github.com/batonrun/baton/runtime/queue"
	"github.com/batonrun/baton/runtime/tail"
)

// Engine begins runs and waits for them.
type Engine interface {
	// Begin adds a claimed run, and has it executed.
	Begin(l *Live)
	// Forget removes a run that has ended here.
	Forget(l *Live)
	// Decide waits for the decision of a command about a run, then logs and measures it.
	Decide(it *commit.Item) error
	// Declines reports whether a run is left to other servers, which have all that it needs.
	Declines(l *Live) bool
	// HandsOver reports whether a run goes on at another server because this one stops.
	HandsOver(l *Live) bool
	// Go calls f. The engine waits for it before it ends.
	Go(f func())
	// Rest waits before a command that the database has refused is tried again. It reports false when the engine stops.
	Rest() bool
}

// Config has the parts and limits that all runs of an engine share.
type Config struct {
	Engine    Engine
	Store     data.Reader
	Signal    func(ctx context.Context, run int64, name string, after int64) (data.Signal, error) // see data.Queue
	Commits   *commit.Queue
	Queue     *queue.Queue
	Budget    *budget.Ledger
	Logs      *tail.Logs
	Offers    *offer.Offers
	Log       *slog.Logger
	Measures  observe.Measures
	Tracer    observe.Tracer
	Counts    calls.Counts
	Unshared  func(error)     // logs errors of work for other servers, which is tried again
	Abandoned context.Context // done when waiting is pointless

	Instance  string
	Shared    bool // other instances write the database too
	Caps      data.Caps
	NoPrompts bool
	Prices    data.Prices

	// See Limits.
	RunEvents, EventBytes, FrameBytes, StateBytes, MaxAttempts   int
	RunMessages                                                  int64
	StepTimeout, RunTimeout, ToolTimeout, ApprovalTimeout, Grace time.Duration

	Attachment func(ctx context.Context, project, user, bucket, path string) (data.Attachment, io.ReadCloser, error) // nil when there are none
	Results    Results                                                                                               // nil leaves all results in the log
}

// Results are the files of results that are too large for the log.
type Results interface {
	// AddResult stores a result. The file is removed unless a data.AttachmentUse of its key is stored.
	AddResult(ctx context.Context, project, user string, thread int64, call, text string) (key int64, err error)
	// OpenResult opens a result, or fails with a refusal if it has no file.
	OpenResult(ctx context.Context, thread int64, call string) (data.Attachment, io.ReadCloser, error)
}
