package runtime

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/log"
	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/runtime/quota"
)

// Run returns a run by any of its names.
func (rt *Runtime) Run(ctx context.Context, c Caller, name string) (Run, error) {
	return rt.visible(ctx, c, name)
}

// visible finds a run the caller may see. For a role that sees the runs of others, a name refers to the caller's own
// run if there is one; a name that several other users have is refused as ambiguous.
func (rt *Runtime) visible(ctx context.Context, c Caller, name string) (Run, error) {
	if err := c.check(); err != nil {
		return Run{}, err
	}
	if !ValidName(name) {
		return Run{}, ErrRunNotFound
	}
	runs, err := rt.store.RunsByName(ctx, c.project, c.user, name)
	if err == nil && len(runs) == 0 && c.only() == "" {
		runs, err = rt.store.RunsByName(ctx, c.project, "", name)
	}
	switch {
	case err != nil:
		return Run{}, unavailable(err)
	case len(runs) == 0:
		return Run{}, ErrRunNotFound
	case len(runs) > 1:
		return Run{}, errAmbiguous
	}
	return grantedRun(runs[0]), nil
}

var errAmbiguous = refuse(KindInvalid, "ambiguous_name", "Several users have a run of that name: say whose, with user")

// owned finds a run the caller may change.
func (rt *Runtime) owned(ctx context.Context, c Caller, name string) (Run, error) {
	run, err := rt.visible(ctx, c, name)
	if err == nil && !c.changes(run.User) {
		return Run{}, refuse(KindForbidden, "forbidden", "Your role may not change this run")
	}
	return run, err
}

// RunOf returns the run of a thread by any of the names that the thread's user has for it, independent of the caller.
func (rt *Runtime) RunOf(ctx context.Context, th *Thread, name string) (Run, error) {
	g, err := th.grant()
	if err != nil {
		return Run{}, err
	}
	if !ValidName(name) {
		return Run{}, ErrRunNotFound
	}
	runs, err := rt.store.RunsByName(ctx, g.project, th.User, name)
	if err != nil {
		return Run{}, unavailable(err)
	}
	if len(runs) != 1 || runs[0].ThreadKey != g.thread {
		return Run{}, ErrRunNotFound
	}
	return grantedRun(runs[0]), nil
}

// Workflow returns the workflow of a run as it was at the run's start. An agent's run has a workflow of one node.
func (rt *Runtime) Workflow(ctx context.Context, c Caller, name string) (plugins.Workflow, error) {
	run, err := rt.visible(ctx, c, name)
	if err != nil {
		return plugins.Workflow{}, err
	}
	return graph.Definition(&run.Run)
}

// Runs lists runs, newest first, without their inputs, definitions and metadata.
func (rt *Runtime) Runs(ctx context.Context, c Caller, f RunFilter) (Page[Run], error) {
	if err := c.check(); err != nil {
		return Page[Run]{}, err
	}
	f.Project = c.project
	f.User = cmp.Or(c.only(), f.User)
	for _, name := range []string{f.User, f.Agent, f.WorkflowID} {
		if name != "" && !ValidName(name) { // nobody has it, and not every database can be asked
			return Page[Run]{Counted: f.Count}, nil
		}
	}
	if err := rt.lookFor(ctx, &f); err != nil {
		return Page[Run]{}, err
	}
	if f.Searches() {
		end, err := rt.search(c)
		if err != nil {
			return Page[Run]{}, err
		}
		defer end()
	}
	page, err := rt.store.Runs(ctx, f)
	runs := make([]Run, len(page.Rows))
	for i := range page.Rows {
		runs[i] = grantedRun(page.Rows[i])
	}
	return Page[Run]{Rows: runs, More: page.More, Total: page.Total, Counted: page.Counted, Behind: page.Behind}, unavailable(err)
}

// maxText is how many characters a search text for runs or threads may have.
const maxText = 200

// lookFor checks the text of a filter. If the text is a conversationId, the filter selects that conversation's runs.
func (rt *Runtime) lookFor(ctx context.Context, f *RunFilter) error {
	if err := checkText(f.Text); err != nil || uuid.Validate(f.Text) != nil {
		return err
	}
	th, err := rt.store.ThreadByConversation(ctx, f.Project, f.Text)
	switch {
	case errors.Is(err, model.ErrNotFound):
		return nil
	case err != nil:
		return unavailable(err)
	case (f.User == "" || f.User == th.User) && (f.ThreadKey == 0 || f.ThreadKey == th.Key):
		f.ThreadKey, f.Text = th.Key, ""
	}
	return nil
}

// checkText refuses a text that cannot match anything.
func checkText(text string) error {
	if utf8.RuneCountInString(text) > maxText || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return refuse(KindInvalid, "invalid_request", "q must be at most %d characters without control characters", maxText)
	}
	return nil
}

// Steps lists a run's steps with a number above after.
func (rt *Runtime) Steps(ctx context.Context, c Caller, name string, after, limit int) (Page[Step], error) {
	run, err := rt.visible(ctx, c, name)
	if err != nil {
		return Page[Step]{}, err
	}
	steps, err := rt.store.Steps(ctx, c.project, run.Key, after, limit)
	return steps, unavailable(err)
}

// Nodes lists the states of a run's nodes, without their outputs.
func (rt *Runtime) Nodes(ctx context.Context, c Caller, name string) ([]Node, error) {
	run, err := rt.visible(ctx, c, name)
	if err != nil {
		return nil, err
	}
	nodes, err := rt.store.NodeStates(ctx, c.project, run.Key)
	return nodes, unavailable(err)
}

// Messages lists a run's messages with a key above after, in the order they came.
func (rt *Runtime) Messages(ctx context.Context, c Caller, name string, after int64, limit int) (Page[Message], error) {
	run, err := rt.visible(ctx, c, name)
	if err != nil {
		return Page[Message]{}, err
	}
	msgs, err := rt.store.RunMessages(ctx, c.project, run.Key, after, limit)
	return msgs, unavailable(err)
}

// Interrupts lists the open interrupts of a waiting run: questions, and calls of the client's own tools.
func (rt *Runtime) Interrupts(ctx context.Context, c Caller, name string) ([]agui.Interrupt, error) {
	run, err := rt.visible(ctx, c, name)
	if err != nil {
		return nil, err
	}
	return rt.InterruptsOf(ctx, &run)
}

// InterruptsOf is Interrupts for a run that was obtained with a Caller.
func (rt *Runtime) InterruptsOf(ctx context.Context, run *Run) ([]agui.Interrupt, error) {
	g, err := run.grant()
	if err != nil {
		return nil, err
	}
	asked, err := rt.keyed.asked(ctx, g)
	return asked, unavailable(err)
}

// Thread finds a thread the caller may see: by the caller's own name for it, or by its conversationId.
func (rt *Runtime) Thread(ctx context.Context, c Caller, name string) (Thread, error) {
	if err := c.check(); err != nil {
		return Thread{}, err
	}
	if !ValidName(name) {
		return Thread{}, ErrThreadNotFound
	}
	th, err := rt.store.ThreadByID(ctx, c.project, c.user, name)
	if errors.Is(err, ErrNotFound) {
		th, err = rt.store.ThreadByConversation(ctx, c.project, name)
	}
	switch {
	case errors.Is(err, ErrNotFound):
		return Thread{}, ErrThreadNotFound
	case err != nil:
		return Thread{}, unavailable(err)
	case !c.sees(th.User):
		return Thread{}, ErrThreadNotFound
	}
	return granted(th), nil
}

// Latest as a Cursor's start means the end of the log.
const Latest = log.Latest

// Read opens a cursor into a thread's log behind the event after. With follow the cursor does not end when no run is
// queued or running. Read fails for an event beyond the log's end.
func (rt *Runtime) Read(ctx context.Context, of Log, after int64, follow bool) (*Cursor, error) {
	g, err := of.grant()
	if err != nil {
		return nil, err
	}
	return rt.read(ctx, g, after, follow)
}

func (rt *Runtime) read(ctx context.Context, g grant, after int64, follow bool) (*Cursor, error) {
	if err := rt.StandsBy(); err != nil {
		return nil, err
	}
	cur, err := rt.keyed.read(ctx, g, after, follow)
	return cur, unavailable(model.Gone(err, ErrThreadNotFound))
}

// ReadRun opens a cursor to the span that a request has started or will start, for the client that sent it.
func (rt *Runtime) ReadRun(ctx context.Context, s Started) (*RunCursor, error) {
	g, err := s.grant()
	if err != nil {
		return nil, err
	}
	cur, err := rt.read(ctx, g, s.After, false)
	if err != nil {
		return nil, err
	}
	of := cur.OfRun(g.run, s.RunID, log.Sender{Messages: s.Messages, Results: s.Results, State: s.State, Before: s.Before})
	if s.Status == Running {
		return of, nil
	}
	run, err := rt.keyed.run(ctx, g)
	if err == nil && run.Status == Cancelled && run.ClosedEvent <= s.After { // the run was cancelled before the cursor existed
		of.NeverRan()
	}
	return of, nil // the cursor reports errors of the store
}

// ReadRunBehind is ReadRun for a client that repeats its request and has the events up to got, 0 for none of them.
// got may be any event id: beyond the log's end, the cursor returns the events that come next.
func (rt *Runtime) ReadRunBehind(ctx context.Context, s Started, got int64) (*RunCursor, error) {
	of, err := rt.ReadRun(ctx, s)
	if err != nil || got <= s.After {
		return of, err
	}
	end, err := rt.keyed.lastEventID(ctx, s.granted)
	var spans []model.Span
	if err == nil {
		spans, err = rt.keyed.spans(ctx, s.granted)
	}
	if err != nil {
		of.Close()
		return nil, unavailable(err)
	}
	i := slices.IndexFunc(spans, func(sp model.Span) bool { return sp.RunID == s.RunID && s.After < sp.First && sp.First <= got })
	if i >= 0 {
		of.Resume(min(got, end), spans[i])
	}
	return of, nil
}

// JoinRun opens a cursor to all events of a run behind the event after. It ends when the run is neither queued nor
// running. It fails for a run with removed events, and for an event beyond the log's end.
func (rt *Runtime) JoinRun(ctx context.Context, run *Run, after int64) (*RunCursor, error) {
	g, err := run.grant()
	if err != nil {
		return nil, err
	}
	spans, err := rt.keyed.spans(ctx, g)
	switch {
	case err != nil:
		return nil, unavailable(err)
	case len(spans) > 0:
		after = max(after, spans[0].First-1)
	case run.Status.Final() && run.Status != Cancelled:
		return nil, ErrRunNotFound
	case after == 0:
		after = Latest
	}
	cur, err := rt.read(ctx, g, after, false)
	if err != nil {
		return nil, err
	}
	of := cur.OfRun(g.run, run.ID, log.Sender{})
	for _, sp := range slices.Backward(spans) {
		if sp.First <= after {
			of.Resume(after, sp)
			break
		}
	}
	of.Spans(len(spans) > 0, func(ctx context.Context, after int64) (bool, error) {
		run, err := rt.keyed.run(ctx, g)
		return run.Status == Queued || run.Status == Running || run.ClosedEvent > after, unavailable(model.Gone(err, ErrRunNotFound))
	})
	if len(spans) == 0 && run.Status == Cancelled {
		of.NeverRan()
	}
	return of, nil
}

// Delete removes a run that is over, with its events. Readers meet the gap as docs/protocol.md says in 2.7. A long
// run is deleted in parts, its events first, and its remainder stays visible until Delete returns; if the run starts
// again meanwhile, the remainder stays. If the process ends first, the next one completes the deletion before it
// serves requests.
func (rt *Runtime) Delete(ctx context.Context, c Caller, name string) error {
	if err := rt.writes(); err != nil {
		return err
	}
	found, err := rt.owned(ctx, c, name)
	if err != nil {
		return err
	}
	if !c.deletes(found.User) {
		return refuse(KindForbidden, "forbidden", "Your role may not delete this run")
	}
	return patientlyDone(rt, func() error {
		for note := rt.by(c, "delete"); ; note = (decide.By{}) {
			out, err := rt.work.Decide(quota.Owner{}, &decide.Delete{Thread: found.ThreadKey, Run: found.Key, Project: c.project, Limit: rt.cfg.DeletedAtOnce, By: note})
			if err != nil || !out.Removed.Left {
				return unavailable(err)
			}
		}
	})
}
