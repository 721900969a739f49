package sim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Room has limits on bytes that a history can reach, unlike a server's defaults. 0 means the default.
type Room struct {
	Light    int  `json:"light,omitempty"`    // size of a run's input and output that is not counted
	Asked    int  `json:"asked,omitempty"`    // input of all running runs
	Said     int  `json:"said,omitempty"`     // memory of their messages
	Each     int  `json:"each,omitempty"`     // memory of one run's messages
	Inbox    int  `json:"inbox,omitempty"`    // size of a request's messages, and of a run's queued messages
	Event    int  `json:"event,omitempty"`    // size of an event
	Pipe     int  `json:"pipe,omitempty"`     // unwritten bytes of a run and of all runs, and size of a thread's ring
	Accounts bool `json:"accounts,omitempty"` // a user may use half of it, a project three quarters
}

// of sets a process's limits.
func (m *Room) of(cfg *runtime.Config) {
	if m == nil {
		return
	}
	cfg.LightBytes, cfg.RunsBytes, cfg.RunMessages = m.Light, int64(m.Asked), int64(m.Each)
	cfg.RunsMessages = cmp.Or(int64(m.Said), cfg.RunsMessages)
	cfg.MessageBytes, cfg.FrameBytes, cfg.Accounts = m.Inbox, m.Event, m.Accounts
	cfg.RingBytes, cfg.QueueRunBytes, cfg.QueueBytes, cfg.BatchBytes = m.Pipe, m.Pipe, 2*m.Pipe, m.Pipe
}

// bounds returns the limits that are set.
func (m *Room) bounds() (set []func(*Room) *int) {
	for _, bound := range []func(*Room) *int{
		func(m *Room) *int { return &m.Asked }, func(m *Room) *int { return &m.Said }, func(m *Room) *int { return &m.Each },
		func(m *Room) *int { return &m.Inbox }, func(m *Room) *int { return &m.Event }, func(m *Room) *int { return &m.Pipe },
	} {
		if *bound(m) > 0 {
			set = append(set, bound)
		}
	}
	return set
}

// room generates limits.
func (g *generator) room() *Room {
	const kib = 1 << 10
	m := &Room{Light: (1 + g.w.IntN(4)) * kib, Asked: (6 + g.w.IntN(20)) * kib, Accounts: g.w.IntN(2) == 0}
	maybe := func(bound *int, least, more int) {
		if g.w.IntN(3) == 0 {
			*bound = least + g.w.IntN(more)
		}
	}
	maybe(&m.Said, 64*kib, 256*kib)
	maybe(&m.Each, 16*kib, 64*kib)
	maybe(&m.Inbox, 4*kib, 16*kib)
	maybe(&m.Event, 16*kib, 16*kib)
	maybe(&m.Pipe, kib, 8*kib)
	return m
}

// amounts returns the sizes of messages: tiny, around the counted size, part of the room, more than the room, and more
// than fits at once.
func (m *Room) amounts() []int {
	if m == nil {
		return []int{100}
	}
	all := []int{100, m.Light, 2 * m.Light, m.Asked / 3, m.Asked / 3, m.Asked + m.Light}
	for _, bound := range []int{m.Inbox, m.Event} {
		if bound > 0 {
			all = append(all, bound/2, bound-bound/10, bound+bound/8)
		}
	}
	return all
}

// heavy are the subjects of most histories about bytes.
var heavy = []struct{ ops, steps []string }{
	{ // runs that end early and restart
		[]string{"tell", "tell", "fetch", "stall", "wait", "die", "fail", "ask", "next", "slow", "do"},
		[]string{doStart, doStart, doStart, doAppend, doAppend, doAppend, doAnswer, doAnswer, doCancel, doCrash, doRestart},
	},
	{ // answered runs with other requests to their thread
		[]string{"ask", "gate", "ask", "tell", "front"},
		[]string{doStart, doStart, doAnswer, doAnswer, doAnswer, doReply, doAppend, doAppend},
	},
}

// weigh gives the messages and answers of a history their sizes. It removes steps that would show only part of a thread
// if events are small.
func (g *generator) weigh(h *History) {
	amounts := h.Room.amounts()
	for _, steps := range h.Callers {
		for i := range steps {
			s := &steps[i]
			switch s.Do {
			case doStart, doAppend, doAnswer, doReply:
				if g.w.IntN(5) > 1 {
					s.Pad = amounts[g.w.IntN(len(amounts))]
					s.Pad += g.w.IntN(1 + s.Pad/8)
				}
			}
			if h.Room.Event == 0 {
				continue
			}
			if s.Do == doAnswer || s.Do == doReply { // a request's answers must fit into one event
				s.Pad = min(s.Pad, h.Room.atMost(false)/4)
			}
			s.Rewind = false
			if s.Multitask == string(runtime.RollbackRuns) {
				s.Multitask = string(runtime.InterruptRuns)
			}
			switch s.Do {
			case doRetire:
				s.Do = doLook
			case doDelete:
				s.Do = doCancel
			}
		}
	}
}

// weighs returns a separate source of randomness, so that other histories of a seed stay the same.
func weighs(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0xb17e5)) }

// amount returns the number of bytes that a place writes.
func (h *History) amount(at string) int {
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, h.Seed, at)
	all := h.Room.amounts()
	return all[sum.Sum64()>>8%uint64(len(all))]
}

// atMost returns the size limit of a start's or append's messages.
func (m *Room) atMost(start bool) int {
	most := 8_000_000 - 64<<10
	if m != nil && m.Event > 0 {
		most = m.Event - min(64<<10, m.Event/8)
	}
	if start {
		most = min(most, m.inbox())
	}
	return most
}

// inbox returns the size limit of a run's queued messages.
func (m *Room) inbox() int {
	if m == nil || m.Inbox == 0 {
		return 8_000_000
	}
	return m.Inbox
}

// stored returns the stored size of a start's or append's message.
func stored(s *Step) int {
	id := fmt.Sprint("m", s.N)
	if s.Do == doAppend {
		id = "00000000-0000-7000-8000-000000000000"
	}
	return len(fmt.Sprintf(`{"id":%q,"role":"user","content":%s}`, id, mustJSON(text(s))))
}

// occupied returns the reservations that are left while no run executes.
func (p *process) occupied() string {
	s := p.rt.Stats()
	if s.Asked != 0 || s.Said != 0 || s.Running != 0 {
		return fmt.Sprintf("nothing is at work, and %d runs count, %d bytes of what they are asked and %d of what they have said", s.Running, s.Asked, s.Said)
	}
	for _, u := range users[:max(p.w.h.Users, 1)] {
		of, err := p.rt.Standing(p.w.ctx, u)
		if err != nil {
			return fmt.Sprintf("what %s has cannot be told: %v", u.User(), err)
		}
		if of.Running.Used != 0 || of.RunningOfProject.Used != 0 {
			return fmt.Sprintf("nothing is at work, and %s/%s has %d slots, %d in its project", u.Project(), u.User(), of.Running.Used, of.RunningOfProject.Used)
		}
	}
	return ""
}

// checkRefused checks that exactly the requests beyond a limit are refused for it.
func (c *checker) checkRefused(r *reply) {
	if r.step.Do != doStart && r.step.Do != doAppend {
		return
	}
	size, most := stored(&r.step), c.h.Room.atMost(r.step.Do == doStart)
	if r.fate == done && size > most {
		c.find(RuleBound, "%s %d of %d bytes was taken, and may have %d", r.step.Do, r.step.N, size, most)
	}
	e, ok := errors.AsType[*runtime.Error](r.err)
	if !ok || r.fate != refused || e.Kind != runtime.KindTooLarge && e.Kind != runtime.KindOverloaded {
		return
	}
	right := false
	switch e.Code {
	case "messages_too_large":
		right = r.step.Do == doStart && size > most
	case "content_too_large":
		right = r.step.Do == doAppend && size > most
	case "inbox_full":
		right = r.step.Do == doAppend && c.sent(r.run) > c.h.Room.inbox()
	case "queue_full":
		right = c.h.Queue > 0
	}
	if !right {
		c.find(RuleBound, "%s %d of %d bytes was refused, and may have %d: %v", r.step.Do, r.step.N, size, most, e)
	}
}

// sent returns the size of all messages sent to a run.
func (c *callers) sent(run string) (size int) {
	for _, r := range c.replies {
		if r.run == run && (r.step.Do == doStart || r.step.Do == doAppend) {
			size += stored(&r.step)
		}
	}
	return size
}

// tooMuch are the error codes of runs with too much output.
var tooMuch = []string{"overloaded", "messages_too_large", "event_too_large"}

// checkSaid checks that a run that fails for its output really exceeded a limit.
func (c *checker) checkSaid(views []*view) {
	said, whole := 2*slices.Max(c.h.Room.amounts()), !c.anyDeletes() // including the event beyond the limit
	for _, v := range views {
		whole = whole && !v.cut
		for i := range v.log {
			said += 2*len(v.log[i].json) + 2<<10 // results and outputs count twice, plus a fixed size per message
		}
	}
	for _, v := range views {
		for i := range v.log {
			ev, ok := v.log[i].ev.(agui.RunError)
			if !ok || !slices.Contains(tooMuch, ev.Code) {
				continue
			}
			bound, has := c.h.Room.saying(ev.Code), said
			if ev.Code == "overloaded" { // it counts each copy in memory
				has *= 4
			}
			if bound == 0 || whole && has < bound {
				c.find(RuleFull, "run %s has failed with %s, where %d may be and all runs have said %d: %s", short(v.log[i].run), ev.Code, bound, has, ev.Message)
			}
		}
	}
}

// saying returns the limit behind an error code, 0 for none.
func (m *Room) saying(code string) int {
	switch {
	case m == nil:
		return 0
	case code == "messages_too_large":
		return m.Each
	case code == "event_too_large":
		return m.Event
	case m.Accounts:
		return m.Said / 2
	}
	return m.Said
}

// padding returns n bytes of text.
func padding(n int) string { return fmt.Sprintf("%*s", n, "") }

// answerTo returns an answer to a question with that much padding.
func answerTo(question string, pad int) json.RawMessage {
	return mustJSON(map[string]string{"to": question, "pad": padding(pad)})
}

// plain removes a text's padding.
func plain(text string) string { return strings.TrimRight(text, " ") }
