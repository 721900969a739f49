package plugintest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
)

// host executes one call of a worker or of a sub-agent.
type host struct {
	ctx      context.Context // ends with the call
	s        *session
	agent    string
	parent   *host    // nil for the run's own agent, which also has no subagent
	subagent string   // the sub-agent's id
	query    string   // of the sub-agent
	wrote    int      // number of events after its last one; guarded by s.mu
	kept     int      // number of events at its last record; guarded by s.mu
	dos      []*doing // Dos whose functions are running; guarded by s.mu
}

var _ plugins.Host = (*host)(nil)

// over returns the cause of the call's end, nil while it runs.
func (h *host) over() error { return context.Cause(h.ctx) }

func (h *host) NewID() string {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	return h.s.id("message")
}

func (h *host) Emit(ev agui.Event) error {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	switch ev.Type() {
	case agui.TypeRunStarted, agui.TypeRunFinished, agui.TypeRunError, agui.TypeMessagesSnapshot:
		return h.s.refuse(fmt.Errorf("%s is not for a worker to emit", ev.Type()))
	case agui.TypeTextMessageStart:
		h.awaitText()
	default:
	}
	return h.emit(ev)
}

// awaitText waits until no other host has a text message open, or the call is over.
func (h *host) awaitText() {
	stop := context.AfterFunc(h.ctx, func() {
		h.s.mu.Lock()
		defer h.s.mu.Unlock()
		h.s.textEnded.Broadcast()
	})
	defer stop()
	for h.s.texting != nil && !h.s.texting.isOrLeads(h) && h.over() == nil {
		h.s.textEnded.Wait()
	}
}

// isOrLeads reports whether h is other or its caller: a caller cannot end its text while the other runs.
func (h *host) isOrLeads(other *host) bool {
	for ; other != nil; other = other.parent {
		if other == h {
			return true
		}
	}
	return false
}

// emit writes evs. The caller holds h.s.mu.
func (h *host) emit(evs ...agui.Event) error {
	for _, ev := range evs {
		if err := h.over(); err != nil {
			return err
		}
		b := ev.Common()
		if b.Agent == "" {
			b.Agent = h.agent
		}
		if b.SubagentRunID == "" {
			b.SubagentRunID = h.subagent
		}
		if end, ok := ev.(agui.ToolCallEnd); ok && h.s.fold.Arguments(end.ToolCallID) == "" { // as a server does
			if err := h.s.add(agui.ToolCallArgs{Base: b, ToolCallID: end.ToolCallID, Delta: "{}"}); err != nil {
				return err
			}
		}
		if err := h.s.add(ev.WithCommon(b)); err != nil {
			return err
		}
		h.wrote = len(h.s.events)
		h.noteShown(ev)
		if _, ok := ev.(agui.TextMessageStart); ok {
			h.s.texting = h
		}
	}
	return nil
}

func (h *host) PatchState(patch json.RawMessage) error {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	_, ev, err := fold.MergePatch(h.s.fold.State(), patch)
	if err != nil || ev == nil {
		return err
	}
	return h.emit(ev)
}

// recall returns the record of u, creating it if needed. The caller holds h.s.mu.
func (h *host) recall(ctx context.Context, u plugins.Use) (*record, error) {
	if err := cmp.Or(context.Cause(ctx), h.over()); err != nil {
		return nil, err
	}
	rec := h.s.records[u.Place]
	if rec == nil {
		rec = &record{hash: u.Hash()}
		h.s.records[u.Place] = rec
	}
	if err := u.Check(rec.hash); err != nil {
		return nil, h.s.refuse(err)
	}
	return rec, nil
}

// keep completes a record, together with the events after the first since. The caller holds h.s.mu.
func (h *host) keep(rec *record, output json.RawMessage, since int) error {
	if err := h.over(); err != nil {
		return err
	}
	err := h.s.keep(rec, output, since)
	h.kept = len(h.s.events)
	return err
}

func (h *host) Do(ctx context.Context, u plugins.Use, fn func(ctx context.Context) (plugins.Record, error)) (json.RawMessage, error) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	rec, err := h.recall(ctx, u)
	if err != nil {
		return nil, err
	}
	if rec.done {
		return rec.output, nil
	}
	before := len(h.s.events)
	var done plugins.Record
	d := &doing{}
	d.outer, _ = ctx.Value(doingKey{h}).(*doing)
	h.dos = append(h.dos, d)
	err = h.unlocked(func() (err error) {
		done, err = fn(context.WithValue(ctx, doingKey{h}, d))
		return err
	})
	h.dos = slices.DeleteFunc(h.dos, func(other *doing) bool { return other == d })
	if err != nil {
		h.s.repeats(before, d)
		return nil, err
	}
	since := len(h.s.events)
	if h.wrote == since {
		since = max(before, h.kept, since-ending(h.s.events))
	}
	err = h.keep(rec, done.Output, since)
	if rec.done { // also when the process dies right after it
		for _, call := range done.Calls {
			h.s.records[call.Place] = &record{id: call.ID}
		}
	} else {
		h.s.repeats(before, d)
	}
	return done.Output, err
}

// Plugins describes the tools and agents of cfg.
func (h *host) Plugins() (tools, agents []plugins.Info) {
	for _, t := range h.s.cfg.Tools {
		tools = append(tools, t.Info())
	}
	for _, a := range h.s.cfg.Agents {
		agents = append(agents, a.Info())
	}
	return tools, agents
}

// ending returns how many of the last events a server stores together with the record of their Do.
func ending(events []agui.Event) int {
	switch events[len(events)-1].Type() {
	case agui.TypeReasoningEnd:
		return 2
	case agui.TypeTextMessageEnd, agui.TypeToolCallResult, agui.TypeStateSnapshot, agui.TypeActivitySnapshot:
		return 1
	}
	return 0
}

// unlocked calls fn without h.s.mu.
func (h *host) unlocked(fn func() error) error {
	h.s.mu.Unlock()
	defer h.s.mu.Lock()
	return fn()
}

func (h *host) Ask(ctx context.Context, u plugins.Use, q agui.Interrupt) (answer plugins.Answer, err error) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	rec, err := h.recall(ctx, u)
	switch {
	case err != nil:
		return answer, err
	case rec.done:
		err := json.Unmarshal(rec.output, &answer)
		return answer, err
	case rec.id != "":
		return answer, plugins.ErrWaiting
	}
	rec.id = h.s.id("question")
	q.ID, q.SubagentRunID = rec.id, h.subagent
	switch {
	case q.Reason != "":
	case q.ResponseSchema != nil:
		q.Reason = "input_required"
	default:
		q.Reason = "confirmation"
	}
	h.s.open = append(h.s.open, question{rec: rec, place: u.Place, interrupt: q})
	h.s.questions = append(h.s.questions, q)
	return answer, plugins.ErrWaiting
}

// shortWait is the longest wait in which a worker stays at work.
const shortWait = 2 * time.Second

// Wait waits until the session has moved its clock to the time, or to that of the event.
func (h *host) Wait(ctx context.Context, u plugins.Use, w plugins.Wait) (got plugins.Received, err error) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	rec, err := h.recall(ctx, u)
	if err != nil {
		return got, err
	}
	if rec.done {
		if w.Event != "" {
			err = json.Unmarshal(rec.output, &got)
		}
		return got, err
	}
	until := w.Until
	if until.IsZero() {
		until = h.s.now().Add(w.For)
	}
	if rec.output == nil {
		rec.output = encode(until)
	} else if err := json.Unmarshal(rec.output, &until); err != nil {
		return got, err
	}
	at := h.s.arrived(w.Event)
	if left := until.Sub(h.s.now()); at < 0 && left >= shortWait {
		h.s.rest(w, until)
		return got, plugins.ErrWaiting
	} else if at < 0 && left > 0 {
		h.s.slept += left
		at = h.s.arrived(w.Event)
	}
	output := rec.output
	if got.Expired = w.Event != "" && at < 0; at >= 0 {
		got.Payload = h.s.inbox[at].Payload
	}
	if w.Event != "" {
		output = encode(got)
	}
	if err = h.keep(rec, output, len(h.s.events)); err == nil && at >= 0 {
		h.s.inbox = slices.Delete(h.s.inbox, at, at+1)
	}
	return got, err
}

func (h *host) Next(ctx context.Context, u plugins.Use) (messages []agui.Message, err error) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	rec, err := h.recall(ctx, u)
	if err != nil {
		return nil, err
	}
	if rec.done {
		err := json.Unmarshal(rec.output, &messages)
		return messages, err
	}
	since := len(h.s.events)
	if h.s.taken < len(h.s.cfg.Next) {
		messages = slices.Clone(h.s.cfg.Next[h.s.taken])
	}
	for i := range messages {
		messages[i].Role = agui.RoleUser
		if messages[i].ID == "" {
			messages[i].ID = h.s.id("next")
		}
		if err := h.show(messages[i]); err != nil {
			return nil, err
		}
	}
	err = h.keep(rec, encode(messages), since)
	if rec.done {
		h.s.taken++
	}
	return messages, err
}

// show writes a person's message. The caller holds h.s.mu.
func (h *host) show(m agui.Message) error {
	evs := []agui.Event{agui.TextMessageStart{MessageID: m.ID, Role: agui.RoleUser}}
	if text := m.Text(); text != "" {
		evs = append(evs, agui.TextMessageContent{MessageID: m.ID, Delta: text})
	}
	end := agui.TextMessageEnd{MessageID: m.ID, Output: &agui.WorkerOutput{Status: agui.StatusSuccess, Answer: m.Text()}}
	return h.emit(append(evs, end)...)
}

// Remember notes a text for later runs. The first one of a key stays.
func (h *host) Remember(_, key, text string) error {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if _, ok := h.s.remembered[key]; !ok && h.parent == nil {
		h.s.remembered[key] = text
	}
	return h.over()
}

// Recall returns the texts of the keys.
func (h *host) Recall(_ context.Context, keys []string) (map[string]string, error) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	texts := make(map[string]string)
	for _, key := range keys {
		if text, ok := h.s.remembered[key]; ok && h.parent == nil {
			texts[key] = text
		}
	}
	return texts, h.over()
}
