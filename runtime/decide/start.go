package decide

import (
	"encoding/json"
	"slices"

	"github.com/batonrun/baton/runtime/model"
)

// Multitask says what a request does to the runs its thread has already.
type Multitask string

// The ways; the zero value means EnqueueRun.
const (
	EnqueueRun    Multitask = "enqueue"   // wait for its turn
	RejectRun     Multitask = "reject"    // refuse with thread_busy
	InterruptRuns Multitask = "interrupt" // cancel them and keep what they wrote
	RollbackRuns  Multitask = "rollback"  // cancel them, hide their messages and restore the state before them
)

// Start asks for a run, or for the continuation of a waiting one when it answers what that run asks.
type Start struct {
	Thread     model.Thread    // as it is inserted when it is New
	New        bool            // there was no such thread when the request was prepared
	Run        model.Run       // as it is inserted; without a WorkflowID on a thread that has had no run
	Messages   []model.Message // those that were not known, as they are queued
	Size       int             // of their stored form
	Edit       bool            // the run rewinds the thread, which is as it was when the request was prepared and has no open run
	Lost       bool            // it is to rewind to a message that the thread does not show
	Last       string          // the tool call whose result the request ends with, if it is new
	Named      bool            // the client named the run
	BodyHash   string          // of the request, to tell a repeat of a runId from another request
	Multitask  Multitask
	Interrupts []string // what the request's resume answers, if anything
	Answers    *Answers // to a run that waited when the request was prepared
	Key        *Key
	Limits     Limits
	Refused    *model.Error // why nothing begins, but for what repeats an earlier request; nil when it may
	Attached   []int64      // keys of the attachments that its messages refer to
	Claim      *Claim       // begins the run at once; nil when no slot was free
	By
}

// Answers are a request's replies to a run that waits.
type Answers struct {
	Run     int64
	Replies []Reply
}

// Started is the answer to a Start.
type Started struct {
	ThreadID       string       `json:"threadId"`
	RunID          string       `json:"runId"`
	ConversationID string       `json:"conversationId"`
	Status         model.Status `json:"status"`
	After          int64        `json:"after"` // the log's end when the request was taken
	ThreadKey      int64        `json:"threadKey"`
	RunKey         int64        `json:"runKey"`
	Replayed       bool         `json:"-"` // the answer to an earlier, equal request

	// What the client has, as its request has brought it.
	Messages []string        `json:"-"` // the ids of its user's
	Results  []string        `json:"-"` // the tool calls whose results it has given
	State    json.RawMessage `json:"-"`
	Before   json.RawMessage `json:"-"` // the thread's state as the span begins, nil where that is not known yet
}

// Ask says what the decision has to see.
func (c *Start) Ask() model.Ask {
	th := &c.Thread
	ask := model.Ask{Name: model.Name{Project: th.Project, User: th.User, ID: th.ID}, Interrupts: c.Interrupts}
	if c.Last != "" {
		ask.Interrupts = append(slices.Clone(ask.Interrupts), c.Last)
	}
	if c.Named {
		ask.RunName = c.name()
	}
	if c.Key != nil {
		ask.Scope = c.Key.Scope
	}
	for i := range c.Messages {
		ask.IDs = append(ask.IDs, c.Messages[i].ID)
	}
	if c.Claim != nil {
		ask.Runs = c.Claim.Shows
	}
	return ask
}

func (c *Start) name() model.Name {
	return model.Name{Project: c.Run.Project, User: c.Run.User, ID: c.Run.ID}
}

func (c *Start) decide(d *decision) error {
	if done, err := d.remembered(c.Key, &d.out.Started); done || err != nil {
		d.out.Started.Replayed = done
		return err
	}
	waiting := first(d.v, model.Waiting)
	named, exists := d.v.Names[c.name()]
	if exists = exists && c.Named; exists && (waiting == nil || waiting.Key != named.RunKey || c.Answers == nil) {
		return c.repeat(d, &named)
	}
	switch {
	case c.Refused != nil:
		return c.Refused
	case waiting != nil && c.Answers != nil:
		return c.resume(d, waiting, exists)
	case waiting != nil && len(c.Interrupts) > 0, c.Answers != nil:
		return ErrStale
	case len(c.Interrupts) > 0:
		return c.late(d)
	}
	return c.create(d, waiting)
}

// repeat answers a request whose runId exists: with that run when it is the same request, else with a refusal.
func (c *Start) repeat(d *decision, named *model.NamedRun) error {
	if !d.v.Exists || named.ThreadKey != d.v.Thread.Key || c.BodyHash == "" || named.BodyHash != c.BodyHash {
		return model.Refuse(model.KindConflict, "run_exists", "There is a run %q already", c.Run.ID)
	}
	c.answer(d, &model.RunHead{Key: named.RunKey, ID: named.ID, Status: named.Status})
	if named.First > 0 {
		d.out.Started.After = named.First - 1
	}
	d.out.Started.Replayed = true
	return nil
}

// late refuses answers when the thread waits for none.
func (c *Start) late(d *decision) error {
	if asked(d.v, c.Interrupts[0]) {
		return ErrAnswered
	}
	return model.Refuse(model.KindInvalid, "interrupts_open", "The thread has no open interrupt %q", c.Interrupts[0])
}

// asked reports whether a run of the thread has asked that.
func asked(v *model.View, id string) bool {
	return slices.ContainsFunc(v.Asked, func(a model.Asked) bool { return a.ID == id })
}

// resume continues the waiting run with what the request answers, under the request's runId as one more of its names.
func (c *Start) resume(d *decision, run *model.RunHead, named bool) error {
	if c.Answers.Run != run.Key {
		return ErrStale
	}
	if err := c.Limits.spent(); err != nil {
		return err
	}
	if err := d.reply(run, c.Answers.Replies, true); err != nil {
		return err
	}
	d.action = "answer"
	if c.Named {
		run.SpanName = c.Run.ID
		if !named {
			c.christen(d, run)
		}
	}
	d.keep(run)
	if msgs := unknown(d.v, c.Messages); len(msgs) > 0 {
		d.accept(run, msgs, c.Size)
		c.attach(d, run.Key)
	}
	c.answer(d, run)
	return d.remember(c.Key, run.Key, d.out.Started)
}

// christen gives the run the request's runId.
func (c *Start) christen(d *decision, run *model.RunHead) {
	d.put(&model.RunName{RunKey: run.Key, Project: c.Run.Project, User: c.Run.User, Name: c.Run.ID, BodyHash: c.BodyHash})
	if !c.Named {
		return
	}
	d.v.Names[c.name()] = model.NamedRun{
		RunKey: run.Key, ThreadKey: d.v.Thread.Key, ID: run.ID, BodyHash: c.BodyHash, Status: run.Status,
	}
}

// create stores a new run, and begins it when nothing is before it.
func (c *Start) create(d *decision, waiting *model.RunHead) error {
	if d.v.Exists == c.New || d.v.Exists && d.v.Thread.Key != c.Thread.Key {
		return ErrStale
	}
	if c.Edit && (len(open(d.v)) > 0 || d.v.Thread.LastEventID != c.Thread.LastEventID) {
		return ErrStale
	}
	msgs := unknown(d.v, c.Messages)
	switch {
	case c.Run.WorkflowID == "":
		return model.Refuse(model.KindInvalid, "missing_agent", "Give an agent or a workflowId: the thread has had no run")
	case c.Lost:
		return ErrUnknownMessage
	case len(msgs) == 0 && c.Last != "" && asked(d.v, c.Last): // it is not open, else this would be its answer
		return ErrAnswered
	}
	begins := c.begins(d.v, len(msgs))
	if err := c.admit(d.v, waiting, begins); err != nil {
		return err
	}
	if c.New {
		th := c.Thread
		th.CreatedAt, th.UpdatedAt = d.v.Now, d.v.Now
		d.put(&th)
		d.v.Exists, d.v.Thread = true, th.ThreadHead
	}
	run := c.Run
	run.CreatedAt, run.Generation = d.v.Now, 1
	if c.makesRoom() {
		run.Replaces = d.makeRoom()
		run.RollBack = c.Multitask == RollbackRuns && len(run.Replaces) > 0
	}
	d.move(&run.RunHead, model.Queued)
	d.queue(&run.RunHead)
	if begins {
		d.begin(&run.RunHead, c.Claim)
	}
	d.v.Runs = append(d.v.Runs, run.RunHead)
	d.out.Run, d.out.Claimed = run.RunHead, begins
	d.put(&run)
	c.attach(d, run.Key)
	c.christen(d, &run.RunHead)
	if begins {
		d.open(c.Claim)
	} else {
		d.accept(&run.RunHead, msgs, c.Size)
	}
	c.answer(d, &run.RunHead)
	return d.remember(c.Key, run.Key, d.out.Started)
}

// attach notes what the request's messages refer to as the run's.
func (c *Start) attach(d *decision, run int64) {
	for _, key := range c.Attached {
		d.put(&model.AttachmentUse{RunKey: run, Key: key})
	}
}

func (c *Start) makesRoom() bool { return c.Multitask == InterruptRuns || c.Multitask == RollbackRuns }

// admit refuses a request for what its thread is doing, because its project has nothing left to spend, or because it would have to
// wait and too many do.
func (c *Start) admit(v *model.View, waiting *model.RunHead, begins bool) error {
	busy := slices.ContainsFunc(v.Runs, func(r model.RunHead) bool { return r.Status == model.Queued || r.Status == model.Running })
	if busy && c.Multitask == RejectRun {
		return ErrThreadBusy
	}
	if waiting != nil && !c.makesRoom() && !onlyFrontend(v, waiting.Key) {
		return ErrThreadWaiting
	}
	limits := c.Limits
	if err := limits.spent(); err != nil || begins {
		return err
	}
	if c.makesRoom() {
		limits.PerThread = 0
	}
	return limits.full(v)
}

// makeRoom cancels the thread's runs whose generation has not begun, and returns those that are still to be ended.
func (d *decision) makeRoom() []model.Replaced {
	var left []model.Replaced
	for i := range d.v.Runs {
		run := &d.v.Runs[i]
		switch {
		case run.Status.Final():
		case begun(run):
			left = append(left, model.Replaced{RunKey: run.Key, Generation: run.Generation})
			d.replaced = append(d.replaced, run.ID)
		default:
			d.discard(run)
		}
	}
	return left
}

// begins reports whether the new run begins at once: its claim was prepared on the thread as it is, and no run is before it.
func (c *Start) begins(v *model.View, fresh int) bool {
	return c.Claim != nil && fresh == len(c.Messages) && len(open(v)) == 0 &&
		c.Claim.Basis.Last == v.Thread.LastEventID && c.Claim.Basis.Seq == v.Thread.LastSeq && c.Claim.shown(v)
}

// unknown returns those of msgs that the thread does not know.
func unknown(v *model.View, msgs []model.Message) []model.Message {
	return slices.DeleteFunc(slices.Clone(msgs), func(m model.Message) bool { return v.Known[m.ID] })
}

// answer tells the client of its run.
func (c *Start) answer(d *decision, run *model.RunHead) {
	th := &d.v.Thread
	d.out.Started = Started{
		ThreadID: th.ID, RunID: run.ID, ConversationID: th.ConversationID, Status: run.Status,
		After: th.LastEventID, ThreadKey: th.Key, RunKey: run.Key,
	}
	if c.Named {
		d.out.Started.RunID = c.Run.ID
	}
}
