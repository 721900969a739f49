package plugintest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
)

// host is what one call of a worker, or of a sub-agent, runs on.
type host struct {
	ctx      context.Context // ends with the call
	s        *session
	agent    string
	parent   *host  // nil for the run's own agent, as the two below are empty
	subagent string // the sub-agent's id
	scope    string
	uses     map[string]int  // of each name, so far in this call; guarded by s.mu
	busy     map[string]bool // names in use now; guarded by s.mu
}

var _ plugins.Host = (*host)(nil)

func newHost(ctx context.Context, s *session, agent string) *host {
	return &host{ctx: ctx, s: s, agent: agent, uses: map[string]int{}, busy: map[string]bool{}}
}

// over returns why the call has ended, nil while it goes on.
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

// isOrLeads reports whether h is other or what other works for: that will not end its text meanwhile.
func (h *host) isOrLeads(other *host) bool {
	for ; other != nil; other = other.parent {
		if other == h {
			return true
		}
	}
	return false
}

// emit writes evs. h.s.mu is held.
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
		if err := h.s.add(ev.WithCommon(b)); err != nil {
			return err
		}
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

// recorded returns the record of the next use of name, or calls fn and records what it returns.
func (h *host) recorded(ctx context.Context, name string, fn func(u use) (json.RawMessage, error)) (json.RawMessage, error) {
	u, raw, err := h.begin(ctx, name)
	if err != nil {
		return nil, err
	}
	defer h.done(name)
	if raw != nil {
		return raw, nil
	}
	if raw, err = fn(u); err != nil {
		return nil, err
	}
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if err := h.over(); err != nil {
		return nil, err
	}
	return raw, h.s.keep(u, raw)
}

func (h *host) begin(ctx context.Context, name string) (use, json.RawMessage, error) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if err := cmp.Or(context.Cause(ctx), h.over()); err != nil {
		return use{}, nil, err
	}
	if h.busy[name] {
		return use{}, nil, h.s.refuse(fmt.Errorf("%s: two uses at once", name))
	}
	h.busy[name] = true
	h.uses[name]++
	u := use{scope: h.scope, name: name, n: h.uses[name]}
	return u, h.s.records[u], nil
}

func (h *host) done(name string) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	delete(h.busy, name)
}

func (h *host) Do(ctx context.Context, name string, fn func(ctx context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	return h.recorded(ctx, "Do "+name, func(use) (json.RawMessage, error) {
		do := &spent{h: h}
		defer do.count()
		return fn(context.WithValue(ctx, spentKey{}, do))
	})
}

func (h *host) Ask(ctx context.Context, q agui.Interrupt) (answer plugins.Answer, err error) {
	raw, err := h.recorded(ctx, "Ask", func(u use) (json.RawMessage, error) {
		h.s.mu.Lock()
		defer h.s.mu.Unlock()
		q.ID, q.SubagentRunID = h.s.id("question"), h.subagent
		switch {
		case q.Reason != "":
		case q.ResponseSchema != nil:
			q.Reason = "input_required"
		default:
			q.Reason = "confirmation"
		}
		h.s.open = append(h.s.open, question{use: u, interrupt: q})
		h.s.questions = append(h.s.questions, q)
		return nil, plugins.ErrWaiting
	})
	if err == nil {
		err = json.Unmarshal(raw, &answer)
	}
	return answer, err
}

func (h *host) Next(ctx context.Context) (messages []agui.Message, err error) {
	raw, err := h.recorded(ctx, "Next", func(use) (json.RawMessage, error) {
		h.s.mu.Lock()
		defer h.s.mu.Unlock()
		if h.s.taken == len(h.s.cfg.Next) {
			return json.RawMessage("null"), nil
		}
		list := slices.Clone(h.s.cfg.Next[h.s.taken])
		h.s.taken++
		for i := range list {
			list[i].Role = agui.RoleUser
			if list[i].ID == "" {
				list[i].ID = h.s.id("next")
			}
			if err := h.show(list[i]); err != nil {
				return nil, err
			}
		}
		return encode(list), nil
	})
	if err == nil {
		err = json.Unmarshal(raw, &messages)
	}
	return messages, err
}

// show writes a person's message. h.s.mu is held.
func (h *host) show(m agui.Message) error {
	evs := []agui.Event{agui.TextMessageStart{MessageID: m.ID, Role: agui.RoleUser}}
	if text := m.Text(); text != "" {
		evs = append(evs, agui.TextMessageContent{MessageID: m.ID, Delta: text})
	}
	end := agui.TextMessageEnd{MessageID: m.ID, Output: &agui.WorkerOutput{Status: agui.StatusSuccess, Answer: m.Text()}}
	return h.emit(append(evs, end)...)
}
