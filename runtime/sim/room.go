package sim

import (
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

// Room bounds bytes, where the bounds that servers have are out of a history's reach. 0 means the usual ones.
type Room struct {
	Light    int  `json:"light,omitempty"`    // what a run may be asked, and say, that counts for nothing
	Asked    int  `json:"asked,omitempty"`    // what the runs at work may be asked
	Said     int  `json:"said,omitempty"`     // what their messages may have in memory
	Each     int  `json:"each,omitempty"`     // those of one run
	Inbox    int  `json:"inbox,omitempty"`    // what is sent with one request, and what may wait for a run
	Event    int  `json:"event,omitempty"`    // one event
	Pipe     int  `json:"pipe,omitempty"`     // what waits to be written, of one run and of all, and what a thread's ring keeps
	Accounts bool `json:"accounts,omitempty"` // a user may have a half of it, a project three quarters
}

// of gives a process its bounds.
func (m *Room) of(cfg *runtime.Config) {
	if m == nil {
		return
	}
	cfg.LightBytes, cfg.RunsBytes, cfg.RunsMessages, cfg.RunMessages = m.Light, int64(m.Asked), int64(m.Said), int64(m.Each)
	cfg.MessageBytes, cfg.FrameBytes, cfg.Accounts = m.Inbox, m.Event, m.Accounts
	cfg.RingBytes, cfg.QueueRunBytes, cfg.QueueBytes, cfg.BatchBytes = m.Pipe, m.Pipe, 2*m.Pipe, m.Pipe
}

// bounds are those that are set.
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

// room makes up bounds.
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

// amounts are the sizes that what is sent and said has: little, about what counts, a part of the room, more than there is, and
// more than fits at once.
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

// heavy are what most histories that weigh bytes are all about.
var heavy = []struct{ ops, steps []string }{
	{ // runs that end early and are begun again
		[]string{"tell", "tell", "fetch", "stall", "wait", "die", "fail", "ask", "next", "slow", "do"},
		[]string{doStart, doStart, doStart, doAppend, doAppend, doAppend, doAnswer, doAnswer, doCancel, doCrash, doRestart},
	},
	{ // runs that are answered while something else is asked of their thread
		[]string{"ask", "gate", "ask", "tell", "front"},
		[]string{doStart, doStart, doAnswer, doAnswer, doAnswer, doReply, doAppend, doAppend},
	},
}

// weigh gives the messages and answers of a history in a room their sizes, and leaves out what shows less of a thread than it has where
// an event holds less.
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
			if s.Do == doAnswer || s.Do == doReply { // the answers of a request are refused beyond one event
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

// weighs is the source of all that is made up about bytes: without them a seed's history is the same.
func weighs(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0xb17e5)) }

// amount is how much is said at a place.
func (h *History) amount(at string) int {
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, h.Seed, at)
	all := h.Room.amounts()
	return all[sum.Sum64()>>8%uint64(len(all))]
}

// atMost is how much of messages a start, or an append, may bring.
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

// inbox is how much may wait for a run.
func (m *Room) inbox() int {
	if m == nil || m.Inbox == 0 {
		return 8_000_000
	}
	return m.Inbox
}

// stored is how large the message of a start or an append is.
func stored(s *Step) int {
	id := fmt.Sprint("m", s.N)
	if s.Do == doAppend {
		id = "00000000-0000-7000-8000-000000000000"
	}
	return len(fmt.Sprintf(`{"id":%q,"role":"user","content":%s}`, id, mustJSON(text(s))))
}

// occupied says what counts of runs when none is at work.
func (w *world) occupied(p *process) string {
	s := p.rt.Stats()
	if s.Asked != 0 || s.Said != 0 || s.Running != 0 {
		return fmt.Sprintf("nothing is at work, and %d runs count, %d bytes of what they are asked and %d of what they have said", s.Running, s.Asked, s.Said)
	}
	for _, u := range users[:max(w.h.Users, 1)] {
		of, err := p.rt.Standing(w.ctx, u)
		if err != nil {
			return fmt.Sprintf("what %s has cannot be told: %v", u.User(), err)
		}
		if of.Running.Used != 0 || of.RunningOfProject.Used != 0 {
			return fmt.Sprintf("nothing is at work, and %s/%s has %d slots, %d in its project", u.Project(), u.User(), of.Running.Used, of.RunningOfProject.Used)
		}
	}
	return ""
}

// checkRefused checks that a request which was refused as too much is, and that one which is was not taken.
func (w *world) checkRefused(r *reply) {
	if r.step.Do != doStart && r.step.Do != doAppend {
		return
	}
	size, most := stored(&r.step), w.h.Room.atMost(r.step.Do == doStart)
	if r.fate == done && size > most {
		w.find(RuleBound, "%s %d of %d bytes was taken, and may have %d", r.step.Do, r.step.N, size, most)
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
		right = r.step.Do == doAppend && w.sent(r.run) > w.h.Room.inbox()
	case "queue_full":
		right = w.h.Queue > 0
	}
	if !right {
		w.find(RuleBound, "%s %d of %d bytes was refused, and may have %d: %v", r.step.Do, r.step.N, size, most, e)
	}
}

// sent is the size of all messages that a run was ever sent.
func (w *world) sent(run string) (size int) {
	for _, r := range w.replies {
		if r.run == run && (r.step.Do == doStart || r.step.Do == doAppend) {
			size += stored(&r.step)
		}
	}
	return size
}

// tooMuch are the codes of runs that say more than they may.
var tooMuch = []string{"overloaded", "messages_too_large", "event_too_large"}

// checkSaid checks that a run which fails as it says too much does so where that is bound, and that there was that much.
func (w *world) checkSaid(views []*view) {
	said, whole := 2*slices.Max(w.h.Room.amounts()), !w.anyDeletes() // with the event that was too much
	for _, v := range views {
		whole = whole && !v.cut
		for i := range v.log {
			said += 2*len(v.log[i].json) + 2<<10 // results and outputs count twice, and each message has something of its own
		}
	}
	for _, v := range views {
		for i := range v.log {
			ev, ok := v.log[i].ev.(agui.RunError)
			if !ok || !slices.Contains(tooMuch, ev.Code) {
				continue
			}
			bound, has := w.h.Room.saying(ev.Code), said
			if ev.Code == "overloaded" { // which counts as often as it is in memory
				has *= 4
			}
			if bound == 0 || whole && has < bound {
				w.find(RuleFull, "run %s has failed with %s, where %d may be and all runs have said %d: %s", short(v.log[i].run), ev.Code, bound, has, ev.Message)
			}
		}
	}
}

// saying is the bound that a run fails for with a code, 0 for none.
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

// padding is n bytes that a JSON string may hold.
func padding(n int) string { return fmt.Sprintf("%*s", n, "") }

// answerTo is the payload that answers a question, with so much beside.
func answerTo(question string, pad int) json.RawMessage {
	return mustJSON(map[string]string{"to": question, "pad": padding(pad)})
}

// plain is a text without its padding.
func plain(text string) string { return strings.TrimRight(text, " ") }
