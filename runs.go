package baton

import (
	"cmp"
	"context"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Requests of the program itself. They do what the routes do, for a Caller.
//
//nolint:revive // each is documented there
type (
	Caller        = runtime.Caller
	StartRequest  = runtime.StartRequest
	Started       = runtime.Started
	RunCursor     = runtime.RunCursor
	AppendRequest = runtime.AppendRequest
	EventRequest  = runtime.EventRequest
	Message       = runtime.Message
	Run           = runtime.Run
	RunFilter     = runtime.RunFilter
	RunPage       = runtime.Page[runtime.Run]
)

// NewCaller returns the user of that name in a project. The engine trusts it: use the program's own knowledge, never fields of a
// request. Without accounts the routes use the user "local" of the project "default".
func NewCaller(project, user string, role runtime.Role) (Caller, error) {
	return runtime.NewCaller(project, user, role)
}

// StartRun starts a run and returns when it is stored. It fails with a *runtime.Error when it refuses the request.
func (s *Server) StartRun(ctx context.Context, c Caller, req StartRequest) (Started, error) {
	return s.rt.StartRun(ctx, c, req)
}

// ReadRun returns a cursor over the events of a run from its start. The caller closes it.
func (s *Server) ReadRun(ctx context.Context, run Started) (*RunCursor, error) {
	return s.rt.Logs.ReadRun(ctx, run)
}

// Runs reads and deletes stored runs.
type Runs struct{ s *Server }

// Runs returns the stored runs.
func (s *Server) Runs() Runs { return Runs{s} }

// Get returns a run by any of its names, with its status, answer and error. It fails with a *runtime.Error of the kind KindNotFound if the
// caller may see no such run.
func (r Runs) Get(ctx context.Context, c Caller, runID string) (Run, error) {
	return r.s.rt.Runs.Get(ctx, c, runID)
}

// List returns a page of the runs that the caller may see, newest first, without their inputs. The filter's Limit is the size of the page,
// default 50; the next page begins with BeforeKey set to the Key of the last run.
func (r Runs) List(ctx context.Context, c Caller, f RunFilter) (RunPage, error) {
	f.Limit = cmp.Or(max(f.Limit, 0), 50)
	return r.s.rt.Runs.List(ctx, c, f)
}

// Delete removes a run that is over, with its events.
func (r Runs) Delete(ctx context.Context, c Caller, runID string) error {
	return r.s.rt.Delete(ctx, c, runID)
}

// Append adds a user's message to a run. A queued or running run reads it at its next safe boundary, a waiting one with its
// answer, and a finished one starts again for it.
func (s *Server) Append(ctx context.Context, c Caller, runID string, req AppendRequest) (Message, error) {
	return s.rt.Append(ctx, c, runID, req)
}

// Answer answers all open interrupts of a waiting run, which then continues.
func (s *Server) Answer(ctx context.Context, c Caller, runID string, answers []agui.ResumeEntry) (Run, error) {
	return s.rt.Resume(ctx, c, runID, answers)
}

// SendEvent sends an event to a run that has not ended, and reports whether the run has gone on for it; otherwise the event is kept until a
// worker of the run waits for it: see plugins.Run.WaitFor.
func (s *Server) SendEvent(ctx context.Context, c Caller, runID string, req EventRequest) (delivered bool, err error) {
	return s.rt.SendEvent(ctx, c, runID, req)
}

// Cancel cancels a run. When it returns, the run's last event is stored. Cancelling a cancelled run is no error.
func (s *Server) Cancel(ctx context.Context, c Caller, runID string) (Run, error) {
	return s.rt.Cancel(ctx, c, runID)
}
