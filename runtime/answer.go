package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// Resume answers what a waiting run asks; the answer must cover every open interrupt. The run goes on when
// its turn comes.
func (rt *Runtime) Resume(ctx context.Context, c Caller, name string, entries []agui.ResumeEntry) (Run, error) {
	if err := rt.admits(); err != nil {
		return Run{}, err
	}
	found, err := rt.owned(ctx, c, name)
	if err != nil {
		return Run{}, err
	}
	if len(entries) == 0 {
		return Run{}, refuse(KindInvalid, "invalid_request", "resume must hold at least one answer")
	}
	var run Run
	err = rt.com.do(func(ctx context.Context, tx Tx, out *outcome) error {
		th, err := tx.LockThread(found.ThreadKey)
		if err != nil {
			return err
		}
		if run, err = tx.Run(ctx, found.Key); err != nil {
			return gone(err)
		}
		a, err := rt.answer(ctx, tx, &run, entries, nil)
		if err != nil {
			return err
		}
		if err := a.apply(ctx, tx, &run); err != nil {
			return err
		}
		out.thread = th.Key
		return rt.afterRun(ctx, tx, th.Key, out, nil)
	})
	return run, unavailable(err)
}

// answers are the interrupts of a run that a request answers.
type answers struct {
	all  []*Interrupt // of the run
	took []*Interrupt // answered now
}

// answer matches what a request brings with what the run asks. It returns nil when the request answers
// nothing, and refuses one that leaves something open.
func (rt *Runtime) answer(ctx context.Context, r Reader, run *Run, entries []agui.ResumeEntry, msgs []agui.Message) (*answers, error) {
	rows, err := r.Interrupts(ctx, run.Key)
	if err != nil {
		return nil, err
	}
	a := &answers{}
	for i := range rows {
		a.all = append(a.all, &rows[i])
	}
	for _, e := range entries {
		in := a.find(e.InterruptID)
		switch {
		case in == nil:
			return nil, refuse(KindInvalid, "interrupts_open", "There is no open interrupt %q", e.InterruptID)
		case in.Status != interruptOpen:
			return nil, errAnswered
		case e.Status != interruptResolved && e.Status != interruptCancelled:
			return nil, refuse(KindInvalid, "invalid_request", "An answer's status must be resolved or cancelled")
		}
		a.take(in, e, "")
	}
	for i := range msgs {
		m := &msgs[i]
		in := a.find(m.ToolCallID)
		if m.Role != agui.RoleTool || in == nil || !in.Frontend || in.Status != interruptOpen {
			continue
		}
		id := m.ID
		if known, err := r.MessagesByID(ctx, run.ThreadKey, []string{id}); err != nil {
			return nil, err
		} else if len(known) > 0 {
			id = ""
		}
		a.take(in, agui.ResumeEntry{Status: interruptResolved, Payload: mustJSON(frontendOutput(m))}, id)
	}
	if len(a.took) == 0 {
		return nil, nil
	}
	if run.Status != Waiting || slices.ContainsFunc(a.all, func(in *Interrupt) bool { return in.Status == interruptOpen }) {
		return nil, refuse(KindInvalid, "interrupts_open", "The answer must cover every open interrupt and pending tool call of the run")
	}
	return a, nil
}

var errAnswered = refuse(KindConflict, "already_answered", "The interrupt has been answered already")

func (a *answers) find(id string) *Interrupt {
	for _, in := range a.all {
		if id != "" && in.ID == id {
			return in
		}
	}
	return nil
}

// frontendAnswer is a frontend call's answer as its interrupt keeps it.
type frontendAnswer struct {
	Result    json.RawMessage `json:"result"`
	MessageID string          `json:"messageId,omitempty"` // of the client's tool message
}

// take notes an answer, which a message of that id may have brought. The memo is completed from it by apply.
func (a *answers) take(in *Interrupt, e agui.ResumeEntry, messageID string) {
	in.Status = interruptAnswered
	if in.Frontend && e.Status == interruptCancelled {
		out := failure("declined", "The client declined the call")
		out.ToolCallID = in.ID
		e.Payload = mustJSON(out)
	} else if in.Frontend && !json.Valid(e.Payload) {
		e.Payload = json.RawMessage("null")
	}
	if in.Frontend {
		in.Payload = mustJSON(frontendAnswer{e.Payload, messageID})
	} else {
		in.Payload = mustJSON(plugins.Answer{Cancelled: e.Status == interruptCancelled, Payload: e.Payload})
	}
	a.took = append(a.took, in)
}

// frontendOutput is a client's tool message as the output of its call.
func frontendOutput(m *agui.Message) agui.ToolOutput {
	out := agui.ToolOutput{ToolCallID: m.ToolCallID, Status: agui.StatusSuccess, ResultSummary: m.Text()}
	if m.Error != "" {
		out.Status = agui.StatusFailure
		out.Error = &agui.OutputError{Code: "tool_failed", Message: m.Error}
	}
	return out
}

// apply writes the answers, and queues the run before all others of its thread once nothing is open.
func (a *answers) apply(ctx context.Context, tx Tx, run *Run) error {
	memos, err := tx.Memos(ctx, run.Key, run.Generation)
	if err != nil {
		return err
	}
	var rows []Row
	for _, in := range a.took {
		i := slices.IndexFunc(memos, func(m Memo) bool { return m.Step == in.Step && m.Name == in.Name && m.N == in.N })
		if i < 0 {
			return errors.New("an interrupt has no record")
		}
		m := &memos[i]
		m.Done, m.Output = true, in.Payload
		if in.Frontend {
			if m.Output, err = withCall(in.Payload, m); err != nil {
				return err
			}
		}
		rows = append(rows, in, m)
	}
	open := slices.ContainsFunc(a.all, func(in *Interrupt) bool { return in.Status == interruptOpen })
	if !open {
		run.Status, run.Answered, run.QueuedAt = Queued, true, tx.Now()
		rows = append(rows, run)
	}
	return tx.Put(rows...)
}

// withCall completes a client's answer with the name and id of its call.
func withCall(payload json.RawMessage, m *Memo) (json.RawMessage, error) {
	var a frontendAnswer
	if err := json.Unmarshal(payload, &a); err != nil {
		return nil, err
	}
	var out agui.ToolOutput
	if json.Unmarshal(a.Result, &out) != nil || out.Status == "" { // answered by resume: any JSON is the result
		out = agui.ToolOutput{Status: agui.StatusSuccess, ResultSummary: string(a.Result)}
		var s string
		if json.Unmarshal(a.Result, &s) == nil {
			out.ResultSummary = s
		}
	}
	out.ToolName, _ = callName(m.Name)
	out.ToolCallID = m.CallID
	return mustJSON(out), nil
}

// resume continues a waiting run with what a request for a run has answered.
func (s *starting) resume(ctx context.Context, tx Tx, th *Thread, run *Run, a *answers, out *outcome) error {
	rest := slices.DeleteFunc(slices.Clone(s.req.Messages), func(m agui.Message) bool {
		return m.Role == agui.RoleTool && a.find(m.ToolCallID) != nil
	})
	msgs, err := s.newMessages(ctx, tx, th, rest)
	if err != nil {
		return err
	}
	if s.req.RunID != "" {
		var in runInput
		if err := json.Unmarshal(run.Input, &in); err != nil {
			return err
		}
		in.SpanName = s.req.RunID
		if in.Requests == nil {
			in.Requests = make(map[string]string)
		}
		in.Requests[s.req.RunID] = s.req.BodyHash
		run.Input = mustJSON(in)
		if err := tx.Put(&RunName{RunKey: run.Key, Name: s.req.RunID}); err != nil {
			return err
		}
	}
	for i := range msgs {
		msgs[i].ThreadKey, msgs[i].RunKey, msgs[i].CreatedAt = th.Key, run.Key, tx.Now()
		if err := tx.Put(&msgs[i]); err != nil {
			return err
		}
	}
	if err := a.apply(ctx, tx, run); err != nil {
		return err
	}
	after := th.LastEventID
	var start func()
	if s.slot && s.target.WorkflowID == run.WorkflowID && !s.rt.Stopping() {
		l, err := s.rt.claimTx(ctx, tx, run, th, out, nil)
		if err != nil {
			return err
		}
		s.claimed, start = true, l.start
	}
	s.answer(th, run)
	s.started.After = after
	open, err := tx.OpenRuns(ctx, th.Key)
	if err != nil {
		return err
	}
	return s.finish(tx, th, open, out, start)
}

// staleResume refuses answers when the thread waits for none.
func (rt *Runtime) staleResume(ctx context.Context, tx Tx, threadKey int64, entries []agui.ResumeEntry) error {
	nothing := refuse(KindInvalid, "interrupts_open", "The thread has no open interrupt %q", entries[0].InterruptID)
	if threadKey == 0 {
		return nothing
	}
	last, err := tx.LastRun(ctx, threadKey)
	if err != nil {
		return err
	}
	all, err := tx.Interrupts(ctx, last.Key)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(in Interrupt) bool { return in.ID == entries[0].InterruptID }) {
		return errAnswered
	}
	return nothing
}

// expire answers interrupts whose time has passed. It ends when the runtime stops.
func (rt *Runtime) expire() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-rt.quit:
			return
		case now := <-tick.C:
			rt.monitors.sweep(now)
		}
		late, err := rt.store.Expired(rt.abandoned, time.Now(), 100)
		if err != nil {
			continue // readiness tells; the next tick tries again
		}
		for i := range late {
			if err := rt.expireOne(&late[i]); err != nil {
				rt.log.Error("interrupt could not be expired", "interrupt", late[i].ID, "error", err)
			}
		}
	}
}

func (rt *Runtime) expireOne(late *Interrupt) error {
	return rt.com.do(func(ctx context.Context, tx Tx, out *outcome) error {
		run, err := tx.Run(ctx, late.RunKey)
		if err != nil {
			return err
		}
		if _, err := tx.LockThread(run.ThreadKey); err != nil {
			return err
		}
		if run.Status != Waiting {
			return nil // it is answered when the run has come to wait for it
		}
		rows, err := tx.Interrupts(ctx, run.Key)
		if err != nil {
			return err
		}
		a := &answers{}
		for i := range rows {
			a.all = append(a.all, &rows[i])
			if rows[i].ID == late.ID && rows[i].Status == interruptOpen {
				a.take(&rows[i], agui.ResumeEntry{Status: interruptCancelled}, "")
			}
		}
		if err := a.apply(ctx, tx, &run); err != nil {
			return err
		}
		out.thread = run.ThreadKey
		return rt.afterRun(ctx, tx, run.ThreadKey, out, nil)
	})
}
