package runtime

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/quota"
)

// Runs finds and lists runs, and their rows, for a caller. It changes nothing.
type Runs struct {
	store    data.ByProject
	keyed    keyed
	accounts bool        // see Config.Accounts
	searches *quota.Pool // under way
}

// Get returns a run by any of its names.
func (rs *Runs) Get(ctx context.Context, c Caller, name string) (Run, error) {
	run, err := rs.visible(ctx, c, name)
	if err != nil {
		return Run{}, err
	}
	return run, rs.readInput(ctx, &run, nil)
}

// readInput adds a run's input and definition, which visible leaves out. It reserves room for their weight first, unless reserve is nil.
func (rs *Runs) readInput(ctx context.Context, run *Run, reserve func(bytes int) error) error {
	g, err := run.grant()
	if err != nil {
		return err
	}
	if reserve != nil {
		w, err := rs.keyed.runWeight(ctx, g)
		if err == nil {
			err = reserve(int(w.Asked + w.Said))
		}
		if err != nil {
			return unavailable(data.Gone(err, ErrRunNotFound))
		}
	}
	run.Run, err = rs.keyed.run(ctx, g)
	return unavailable(data.Gone(err, ErrRunNotFound))
}

// visible finds a run the caller may see. For a role that sees the runs of others, a name refers to the caller's own
// run if there is one; a name that several other users have is refused as ambiguous.
func (rs *Runs) visible(ctx context.Context, c Caller, name string) (Run, error) {
	if err := c.check(); err != nil {
		return Run{}, err
	}
	if !ValidName(name) {
		return Run{}, ErrRunNotFound
	}
	runs, err := rs.store.RunsByName(ctx, c.project, c.user, name)
	if err == nil && len(runs) == 0 && c.only() == "" {
		runs, err = rs.store.RunsByName(ctx, c.project, "", name)
	}
	var run data.Run
	switch {
	case len(runs) > 1:
		return Run{}, errAmbiguous
	case len(runs) == 1:
		run = runs[0]
	case err == nil:
		err = ErrNotFound
	}
	if err := c.lookupErr(err, run.User, ErrRunNotFound); err != nil {
		return Run{}, err
	}
	return grantedRun(run), nil
}

var errAmbiguous = refuse(KindInvalid, "ambiguous_name", "Several users have a run of that name: say whose, with user")

// owned finds a run the caller may change.
func (rs *Runs) owned(ctx context.Context, c Caller, name string) (Run, error) {
	run, err := rs.visible(ctx, c, name)
	if err == nil && !c.changes(run.User) {
		return Run{}, refuse(KindForbidden, "forbidden", "Your role may not change this run")
	}
	return run, err
}

// Of returns the run of a thread by any of the names that the thread's user has for it, independent of the caller.
func (rs *Runs) Of(ctx context.Context, th *Thread, name string) (Run, error) {
	g, err := th.grant()
	if err != nil {
		return Run{}, err
	}
	if !ValidName(name) {
		return Run{}, ErrRunNotFound
	}
	runs, err := rs.store.RunsByName(ctx, g.project, th.User, name)
	if err != nil {
		return Run{}, unavailable(err)
	}
	if len(runs) != 1 || runs[0].ThreadKey != g.thread {
		return Run{}, ErrRunNotFound
	}
	return grantedRun(runs[0]), nil
}

// Workflow returns the workflow of a run as it was at the run's start. An agent's run has a workflow of one node.
func (rs *Runs) Workflow(ctx context.Context, c Caller, name string) (plugins.Workflow, error) {
	run, err := rs.Get(ctx, c, name)
	if err != nil {
		return plugins.Workflow{}, err
	}
	return graph.Definition(&run.Run)
}

// List lists runs, newest first, without their inputs, definitions and metadata.
func (rs *Runs) List(ctx context.Context, c Caller, f RunFilter) (Page[Run], error) {
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
	if err := rs.lookFor(ctx, &f); err != nil {
		return Page[Run]{}, err
	}
	explain := unavailable
	if f.Searches() {
		end, err := beginSearch(rs.searches, c)
		if err != nil {
			return Page[Run]{}, err
		}
		defer end()
		explain = searchFailed
	}
	page, err := rs.store.Runs(ctx, f)
	runs := make([]Run, len(page.Rows))
	for i := range page.Rows {
		runs[i] = grantedRun(page.Rows[i])
	}
	return Page[Run]{Rows: runs, More: page.More, Total: page.Total, Counted: page.Counted}, explain(err)
}

// maxText is how many characters a search text for runs or threads may have.
const maxText = 200

// maxMembers is how many tags and members of metadata a filter may have.
const maxMembers = 16

// lookFor checks the text, the tags and the metadata of a filter. If the text is a conversationId, the filter selects that
// conversation's runs.
func (rs *Runs) lookFor(ctx context.Context, f *RunFilter) error {
	if len(f.Tags)+len(f.Metadata) > maxMembers {
		return refuse(KindInvalid, "invalid_request", "A list of runs takes at most %d tags and members of metadata", maxMembers)
	}
	if err := checkText(f.Text); err != nil || uuid.Validate(f.Text) != nil {
		return err
	}
	th, err := rs.store.ThreadByConversation(ctx, f.Project, f.Text)
	switch {
	case errors.Is(err, data.ErrNotFound):
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

// Steps lists the steps of a run, or of one node of it, with a number above after.
func (rs *Runs) Steps(ctx context.Context, c Caller, name, node string, after, limit int) (Page[Step], error) {
	run, err := rs.visible(ctx, c, name)
	if err != nil {
		return Page[Step]{}, err
	}
	steps, err := rs.store.Steps(ctx, c.project, run.Key, node, after, limit)
	return steps, unavailable(err)
}

// Nodes lists the states of a run's nodes, without their outputs.
func (rs *Runs) Nodes(ctx context.Context, c Caller, name string) ([]Node, error) {
	run, err := rs.visible(ctx, c, name)
	if err != nil {
		return nil, err
	}
	nodes, err := rs.store.NodeStates(ctx, c.project, run.Key)
	return nodes, unavailable(err)
}

// Messages lists a run's messages with a key above after, in the order they came.
func (rs *Runs) Messages(ctx context.Context, c Caller, name string, after int64, limit int) (Page[Message], error) {
	run, err := rs.visible(ctx, c, name)
	if err != nil {
		return Page[Message]{}, err
	}
	msgs, err := rs.store.RunMessages(ctx, c.project, run.Key, after, limit)
	return msgs, unavailable(err)
}

// Interrupts lists the open interrupts of a waiting run: questions, and calls of the client's own tools.
func (rs *Runs) Interrupts(ctx context.Context, c Caller, name string) ([]agui.Interrupt, error) {
	run, err := rs.visible(ctx, c, name)
	if err != nil {
		return nil, err
	}
	return rs.InterruptsOf(ctx, c, &run)
}

// InterruptsOf is Interrupts for a run that was obtained with a Caller.
func (rs *Runs) InterruptsOf(ctx context.Context, c Caller, run *Run) ([]agui.Interrupt, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	g, err := run.grant()
	if err != nil {
		return nil, err
	}
	asked, err := rs.keyed.asked(ctx, g, func(in *data.Interrupt) bool { return rs.mayAnswer(c, in, run.User) })
	return asked, unavailable(err)
}
