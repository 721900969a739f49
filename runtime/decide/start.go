package decide

import (
	"encoding/json"
	"slices"

	"github.com/batonrun/baton/runtime/data"
)

// Multitask is the effect of a request on earlier runs of its thread.
type Multitask string

// The ways; the zero value means EnqueueRun.
const (
	EnqueueRun    Multitask = "enqueue"   // wait for its turn
	RejectRun     Multitask = "reject"    // refuse with thread_busy
	InterruptRuns Multitask = "interrupt" // cancel them and keep what they wrote
	RollbackRuns  Multitask = "rollback"  // cancel them, hide their messages and restore the state before them
)

// Start requests a new run. If it answers the questions of a waiting run, that run continues instead.
type Start struct {
	Thread     data.Thread    // inserted if New
	New        bool           // the thread did not exist when the request was prepared
	Run        data.Run       // the row to insert; without a WorkflowID if the thread has had no run
	Messages   []data.Message // new messages, as they are queued
	Size       int            // bytes of their stored form
	Edit       bool           // the run rewinds the thread; requires the thread as it was prepared, with no open run
	Lost       bool           // the run rewinds to a message that the thread does not show
	Last       string         // the new tool result at the end of the request: its tool call, or empty
	Named      bool           // the client chose the run's id
	BodyHash   string         // of the request; a runId with the same hash is a repeat
	Multitask  Multitask
	Interrupts []string // ids that the request's resume answers
	Answers    *Answers // for the run that waited when the request was prepared
	Key        *Key
	Limits     Limits
	Refused    *data.Error // set if only a repeat of an earlier request may pass
	Attached   []int64     // keys of the attachments that the messages refer to
	Claim      *Claim      // starts the run at once; nil if no slot was free
	By
}

// Bytes returns about how many bytes the command writes: all that the request has brought or made the server copy, and not only its
// messages.
func (c *Start) Bytes() int {
	ids := 0
	for _, id := range c.Run.ContextItemIDs {
		ids += len(id)
	}
	return c.Size + len(c.Run.Input) + len(c.Run.Definition) + len(c.Run.Metadata) + ids*(1+len(c.Messages)) // each message has them
}

// Answers are a request's replies to a waiting run.
type Answers struct {
	Run     int64
	Replies []Reply
}

// Started is the answer to a Start.
type Started struct {
	ThreadID       string      `json:"threadId"`
	RunID          string      `json:"runId"`
	ConversationID string      `json:"conversationId"`
	Status         data.Status `json:"status"`
	After          int64       `json:"after"` // the log's end when the request was accepted
	ThreadKey      int64       `json:"threadKey"`
	RunKey         int64       `json:"runKey"`
	Executed       bool        `json:"executed,omitempty"` // the request's answers begin the span after the one that was executed
	Replayed       bool        `json:"-"`                  // answers a repeat of an earlier request
	TiedTo         string      `json:"-"`                  // the connection that the run belongs to; empty for a repeat

	// The parts of the client's request that its own stream need not repeat.
	Messages []string        `json:"-"` // ids of the user's messages
	Results  []string        `json:"-"` // tool calls whose results it brought
	State    json.RawMessage `json:"-"`
	Before   json.RawMessage `json:"-"` // the thread's state before the span; nil if not known yet
}

// Ask returns the rows that the decision needs to see.
func (c *Start) Ask() data.Ask {
	th := &c.Thread
	ask := data.Ask{Name: data.Name{Project: th.Project, User: th.User, ID: th.ID}, Interrupts: c.Interrupts}
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
		ask.Runs, ask.Counts = c.Claim.Shows, c.Claim.Ask().Counts
	}
	return ask
}

func (c *Start) name() data.Name {
	return data.Name{Project: c.Run.Project, User: c.Run.User, ID: c.Run.ID}
}

func (c *Start) decide(d *decision) error {
	if done, err := d.recallAnswer(c.Key, &d.out.Started); done || err != nil {
		d.out.Started.Replayed = done
		return err
	}
	named, exists := d.v.Names[c.name()]
	exists = exists && c.Named
	repeats := exists && c.BodyHash != "" && c.BodyHash == named.BodyHash
	if exists && (repeats || c.Answers == nil || c.Answers.Run != named.RunKey) {
		return c.answerRepeat(d, &named)
	}
	switch {
	case c.Refused != nil:
		return c.Refused
	case c.Answers != nil:
		return c.resumeRun(d, exists)
	case len(c.Interrupts) > 0:
		return c.refuseLate(d)
	}
	return c.createRun(d, waitingRun(d.v))
}

// answerRepeat answers a request whose runId exists: with the run if the bodies are equal, otherwise with a refusal.
func (c *Start) answerRepeat(d *decision, named *data.NamedRun) error {
	if !d.v.Exists || named.ThreadKey != d.v.Thread.Key || c.BodyHash == "" || named.BodyHash != c.BodyHash {
		return data.Refuse(data.KindConflict, "run_exists", "There is a run %q already", c.Run.ID)
	}
	c.setStarted(d, &data.RunHead{Key: named.RunKey, ID: named.ID, Status: named.Status})
	if named.First > 0 {
		d.out.Started.After = named.First - 1
	}
	d.out.Started.Executed = named.First == 0 && named.Status == data.Running // its span is still to come
	d.out.Started.Replayed, d.out.Started.TiedTo = true, ""
	return nil
}

// refuseLate refuses answers to a thread that waits for none.
func (c *Start) refuseLate(d *decision) error {
	switch in := asked(d.v, c.Interrupts[0]); {
	case in == nil:
		return errUnknownInterrupt(c.Interrupts[0])
	case in.Status == data.InterruptOpen:
		return ErrStale
	default:
		return errLate(in)
	}
}

// asked returns the question of any run of the thread, or nil.
func asked(v *data.View, id string) *data.Asked {
	for i := range v.Asked {
		if v.Asked[i].ID == id {
			return &v.Asked[i]
		}
	}
	return nil
}

// resumeRun continues the run that has asked with the answers. The request's runId becomes one more name of the run.
func (c *Start) resumeRun(d *decision, named bool) error {
	run := d.v.Run(c.Answers.Run)
	if run == nil {
		return ErrStale
	}
	executed := run.Status == data.Running
	if err := c.Limits.budgetErr(); err != nil {
		return err
	}
	if err := d.applyReplies(run, c.Answers.Replies); err != nil {
		return err
	}
	d.action = "answer"
	if c.Named {
		run.SpanName = c.Run.ID
		if !named {
			c.addName(d, run)
		}
	}
	d.putHead(run)
	d.put(&data.RunTie{Key: run.Key, TiedTo: c.Run.TiedTo})
	if msgs := unknownMessages(d.v, c.Messages); len(msgs) > 0 {
		d.queueMessages(run, msgs, c.Size)
		c.putAttachments(d, run.Key)
	}
	c.setStarted(d, run)
	d.out.Started.Executed = executed
	return d.storeAnswer(c.Key, run.Key, d.out.Started)
}

// addName gives the run the request's runId as a name.
func (c *Start) addName(d *decision, run *data.RunHead) {
	d.put(&data.RunName{RunKey: run.Key, Project: c.Run.Project, User: c.Run.User, Name: c.Run.ID, BodyHash: c.BodyHash})
	if !c.Named {
		return
	}
	d.v.Names[c.name()] = data.NamedRun{
		RunKey: run.Key, ThreadKey: d.v.Thread.Key, ID: run.ID, BodyHash: c.BodyHash, Status: run.Status,
	}
}

// createRun stores a new run, and starts it if no other run comes first.
func (c *Start) createRun(d *decision, waiting *data.RunHead) error {
	if d.v.Exists == c.New || d.v.Exists && d.v.Thread.Key != c.Thread.Key {
		return ErrStale
	}
	if c.Edit && (len(openRuns(d.v)) > 0 || d.v.Thread.LastEventID != c.Thread.LastEventID) {
		return ErrStale
	}
	msgs := unknownMessages(d.v, c.Messages)
	if in := asked(d.v, c.Last); len(msgs) == 0 && c.Last != "" && in != nil {
		switch {
		case in.Status != data.InterruptOpen:
			return errLate(in)
		case in.Frontend: // asked meanwhile
			return ErrStale
		}
		return data.Refuse(data.KindInvalid, "invalid_answer", "The call %q waits for an approval, which is given in resume and not by a tool message", in.ID)
	}
	switch {
	case c.Run.WorkflowID == "":
		return data.Refuse(data.KindInvalid, "missing_agent", "Give an agent or a workflowId: the thread has had no run")
	case c.Lost:
		return ErrUnknownMessage
	}
	begins := c.startsNow(d.v, len(msgs))
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
	if c.replacesRuns() {
		run.Replaces = d.replaceRuns()
		run.RollBack = c.Multitask == RollbackRuns && len(run.Replaces) > 0
	}
	d.moveRun(&run.RunHead, data.Queued)
	d.enqueue(&run.RunHead)
	if begins {
		d.startRun(&run.RunHead, c.Claim)
	}
	d.v.Runs = append(d.v.Runs, run.RunHead)
	d.out.Run, d.out.Claimed = run.RunHead, begins
	d.put(&run)
	c.putAttachments(d, run.Key)
	c.addName(d, &run.RunHead)
	if begins {
		d.putSpan(c.Claim)
	} else {
		d.queueMessages(&run.RunHead, msgs, c.Size)
	}
	c.setStarted(d, &run.RunHead)
	return d.storeAnswer(c.Key, run.Key, d.out.Started)
}

// putAttachments records that the run uses the request's attachments.
func (c *Start) putAttachments(d *decision, run int64) {
	for _, key := range c.Attached {
		d.put(&data.AttachmentUse{RunKey: run, Key: key})
	}
}

func (c *Start) replacesRuns() bool {
	return c.Multitask == InterruptRuns || c.Multitask == RollbackRuns
}

// admit refuses a run that its thread's runs, the budgets or a queue's limit do not allow.
func (c *Start) admit(v *data.View, waiting *data.RunHead, begins bool) error {
	busy := slices.ContainsFunc(openRuns(v), data.RunHead.Busies)
	if busy && c.Multitask == RejectRun {
		return ErrThreadBusy
	}
	if waiting != nil && !c.replacesRuns() && !onlyFrontend(v, waiting.Key) {
		return ErrThreadWaiting
	}
	limits := c.Limits
	if err := limits.budgetErr(); err != nil || begins {
		return err
	}
	if c.replacesRuns() {
		limits.PerThread = 0
	}
	return limits.queueErr(v)
}

// replaceRuns cancels the thread's runs that have not begun, and returns those that still have to be ended.
func (d *decision) replaceRuns() []data.Replaced {
	var left []data.Replaced
	for i := range d.v.Runs {
		run := &d.v.Runs[i]
		switch {
		case run.Status.Final():
		case begun(run):
			left = append(left, data.Replaced{RunKey: run.Key, Generation: run.Generation})
			d.toReplace = append(d.toReplace, run.ID)
		default:
			d.cancelUnstarted(run)
		}
	}
	return left
}

// startsNow reports whether the new run starts at once: its claim matches the thread, no run comes first, and no limit is reached.
func (c *Start) startsNow(v *data.View, fresh int) bool {
	return c.Claim != nil && fresh == len(c.Messages) && len(openRuns(v)) == 0 &&
		c.Claim.Basis.Last == v.Thread.LastEventID && c.Claim.Basis.Seq == v.Thread.LastSeq && c.Claim.sourcesExist(v) && hasRoom(v, c.Claim.Caps, c.Claim.Project, c.Claim.User) == nil
}

// unknownMessages returns the messages that the thread does not have.
func unknownMessages(v *data.View, msgs []data.Message) []data.Message {
	return slices.DeleteFunc(slices.Clone(msgs), func(m data.Message) bool { return v.Known[m.ID] })
}

// setStarted fills in the response to the client.
func (c *Start) setStarted(d *decision, run *data.RunHead) {
	th := &d.v.Thread
	d.out.Started = Started{
		ThreadID: th.ID, RunID: run.ID, ConversationID: th.ConversationID, Status: run.Status,
		After: th.LastEventID, ThreadKey: th.Key, RunKey: run.Key, TiedTo: c.Run.TiedTo,
	}
	if c.Named {
		d.out.Started.RunID = c.Run.ID
	}
}
