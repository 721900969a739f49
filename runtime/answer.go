package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/decide"
)

// Resume answers what a waiting run asks; the answer must cover every open interrupt. The run goes on when
// its turn comes.
func (rt *Runtime) Resume(ctx context.Context, c Caller, name string, entries []agui.ResumeEntry) (Run, error) {
	if err := rt.admits(); err != nil {
		return Run{}, err
	}
	run, err := rt.owned(ctx, c, name)
	if err != nil {
		return Run{}, err
	}
	if len(entries) == 0 {
		return Run{}, refuse(KindInvalid, "invalid_request", "resume must hold at least one answer")
	}
	for {
		all, err := rt.store.Interrupts(ctx, run.Key)
		if err != nil {
			return Run{}, unavailable(err)
		}
		replies, err := repliesTo(all, entries)
		if err != nil {
			return Run{}, err
		}
		it := &commit.Item{Command: &decide.Resume{Thread: run.ThreadKey, Run: run.Key, Replies: replies}}
		if err := rt.commits.Decide(it); !errors.Is(err, decide.ErrStale) {
			run.RunHead = it.Out.Run
			return run, unavailable(err)
		}
	}
}

// repliesTo prepares the answers of a request to the interrupts of a run. Answers to none are left to the decision.
func repliesTo(all []Interrupt, entries []agui.ResumeEntry) ([]decide.Reply, error) {
	replies := make([]decide.Reply, len(entries))
	for i, e := range entries {
		replies[i].Interrupt = e.InterruptID
		in := interrupt(all, e.InterruptID)
		if in == nil {
			continue
		}
		if in.Status == interruptOpen && e.Status != interruptResolved && e.Status != interruptCancelled {
			return nil, refuse(KindInvalid, "invalid_request", "An answer's status must be resolved or cancelled")
		}
		replies[i] = replyTo(in, e, "")
	}
	return replies, nil
}

// interrupt returns the one with the id, nil when there is none.
func interrupt(all []Interrupt, id string) *Interrupt {
	for i := range all {
		if id != "" && all[i].ID == id {
			return &all[i]
		}
	}
	return nil
}

// replyTo prepares one answer, which a client's message of that id may have brought.
func replyTo(in *Interrupt, e agui.ResumeEntry, messageID string) decide.Reply {
	r := decide.Reply{Interrupt: in.ID}
	switch {
	case !in.Frontend:
		r.Payload = mustJSON(plugins.Answer{Cancelled: e.Status == interruptCancelled, Payload: e.Payload})
		r.Output = r.Payload
		return r
	case e.Status == interruptCancelled:
		e.Payload = mustJSON(failure("declined", "The client declined the call"))
	case !json.Valid(e.Payload):
		e.Payload = json.RawMessage("null")
	}
	r.Payload = mustJSON(frontendAnswer{e.Payload, messageID})
	r.Output = resultOf(in, e.Payload)
	return r
}

// frontendAnswer is a frontend call's answer as its interrupt keeps it.
type frontendAnswer struct {
	Result    json.RawMessage `json:"result"`
	MessageID string          `json:"messageId,omitempty"` // of the client's tool message
}

// resultOf is a client's answer as the result of its call.
func resultOf(in *Interrupt, answer json.RawMessage) json.RawMessage {
	var out agui.ToolOutput
	if json.Unmarshal(answer, &out) != nil || out.Status == "" { // answered by resume: any JSON is the result
		out = agui.ToolOutput{Status: agui.StatusSuccess, ResultSummary: string(answer)}
		var s string
		if json.Unmarshal(answer, &s) == nil {
			out.ResultSummary = s
		}
	}
	out.ToolName, out.ToolCallID = in.Tool, in.ID
	return mustJSON(out)
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

// answers prepares what a request for a run answers, nil when nothing: what its resume says, and its messages
// with the results of the client's own tools. known says which messages the thread has already.
func (rt *Runtime) answers(ctx context.Context, threadKey int64, req *StartRequest, known map[string]bool) (*decide.Answers, error) {
	if len(req.Resume) == 0 && !slices.ContainsFunc(req.Messages, func(m agui.Message) bool { return m.Role == agui.RoleTool }) {
		return nil, nil
	}
	open, err := rt.store.OpenRuns(ctx, threadKey)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(open, func(r RunHead) bool { return r.Status == Waiting })
	if i < 0 {
		return nil, nil
	}
	all, err := rt.store.Interrupts(ctx, open[i].Key)
	if err != nil {
		return nil, err
	}
	a := &decide.Answers{Run: open[i].Key}
	if a.Replies, err = repliesTo(all, req.Resume); err != nil {
		return nil, err
	}
	for j := range req.Messages {
		m := &req.Messages[j]
		in := interrupt(all, m.ToolCallID)
		if m.Role != agui.RoleTool || in == nil || !in.Frontend || in.Status != interruptOpen || slices.ContainsFunc(a.Replies, func(r decide.Reply) bool { return r.Interrupt == in.ID }) {
			continue
		}
		id := m.ID
		if known[id] {
			id = ""
		}
		a.Replies = append(a.Replies, replyTo(in, agui.ResumeEntry{Status: interruptResolved, Payload: mustJSON(frontendOutput(m))}, id))
	}
	if len(a.Replies) == 0 {
		return nil, nil
	}
	return a, nil
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
			rt.feeds.Sweep(now)
		}
		late, err := rt.store.Expired(rt.abandoned, time.Now(), 100)
		if err != nil {
			continue // readiness tells; the next tick tries again
		}
		for i := range late {
			if err := rt.expireOne(&late[i]); err != nil && !errors.Is(err, decide.ErrStale) {
				rt.log.Error("interrupt could not be expired", "interrupt", late[i].ID, "error", err)
			}
		}
	}
}

func (rt *Runtime) expireOne(late *Interrupt) error {
	run, err := rt.store.Run(rt.abandoned, late.RunKey)
	if err != nil {
		return gone(err)
	}
	reply := replyTo(late, agui.ResumeEntry{Status: interruptCancelled}, "")
	return rt.commits.Decide(&commit.Item{Command: &decide.Expire{Thread: run.ThreadKey, Run: run.Key, Reply: reply}})
}
