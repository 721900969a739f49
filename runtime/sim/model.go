package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime"
)

// Model is what a thread is to its callers when they ask one thing after the other and each time wait until all
// is quiet. It says how each request is answered, and what the runs, their messages and the log's spans are then.
// It is written from the wire's rules and knows nothing of how they are kept.
type Model struct {
	runs   []*modelRun // in the order they were created
	queue  []*modelRun // QUEUED, in the order they will run
	spans  []string    // "run outcome" of the closed ones, in the log's order
	state  string
	stored string // the state as of the end of the latest span
	exists bool
	room   *Room
}

// modelRun is one run. Its worker plays scripts up to what it waits for.
type modelRun struct {
	name       string
	status     runtime.Status
	generation int
	attempts   int         // crashes in a row
	begun      bool        // this generation has a span
	started    bool        // any has
	before     string      // the thread's state when this generation began
	takes      string      // the state its request brings
	hides      []*modelRun // those it rolls back

	todo Script // what the worker has yet to do with what it was given
	asks string // the op it waits for
	msgs []*modelMessage
}

// modelMessage is a message somebody sent.
type modelMessage struct {
	name   string
	script Script
	size   int
	state  runtime.MessageState
	taken  int // the generation that has taken it
}

// Reply is how a request is answered: done, or refused with a code.
type Reply string

const replied Reply = "done"

// NewModel returns an empty thread, in a room or in none.
func NewModel(room *Room) *Model { return &Model{state: "{}", stored: "{}", room: room} }

func (m *Model) find(name string) *modelRun {
	for _, r := range m.runs {
		if r.name == name {
			return r
		}
	}
	return nil
}

// active returns the run that is RUNNING or WAITING, if there is one.
func (m *Model) active() *modelRun {
	for _, r := range m.runs {
		if r.status == runtime.Running || r.status == runtime.Waiting {
			return r
		}
	}
	return nil
}

// Apply does one step and what follows from it.
func (m *Model) Apply(s *Step) Reply {
	reply := m.request(s)
	m.advance()
	return reply
}

func (m *Model) request(s *Step) Reply {
	if s.Do == doStart {
		return m.start(s)
	}
	switch s.Do {
	case doRelease:
		m.release("stay")
		return replied
	case doPass:
		m.release("late")
		return replied
	case doClock: // nothing depends on what time it is
		return replied
	case doRestart:
		if r := m.active(); r != nil && r.status == runtime.Running {
			r.attempts = 0
		}
		return replied
	case doCrash:
		m.crash()
		return replied
	case doClear, doTitle:
		if !m.exists {
			return "not_found"
		}
		if s.Do == doClear {
			*m = *NewModel(m.room)
		}
		return replied
	}
	r := m.find(fmt.Sprint("r", s.Run))
	if r == nil {
		return "not_found"
	}
	switch s.Do {
	case doAppend:
		return m.append(r, s)
	case doCancel:
		return m.cancel(r)
	case doAnswer:
		return m.answer(r)
	case doDelete:
		return m.remove(r)
	}
	panic("the model does not know " + s.Do)
}

func (m *Model) start(s *Step) Reply {
	if old := m.find(fmt.Sprint("r", s.N)); old != nil {
		return replied // the same request again is the same run
	}
	if stored(s) > m.room.atMost(true) {
		return "messages_too_large"
	}
	active := m.active()
	busy := len(m.queue) > 0 || active != nil && active.status == runtime.Running
	r := &modelRun{name: fmt.Sprint("r", s.N), status: runtime.Queued, generation: 1}
	switch {
	case s.Multitask == "interrupt" || s.Multitask == "rollback":
		for _, o := range slices.Backward(slices.Clone(m.runs)) {
			if o.status.Final() {
				continue
			}
			m.cancel(o)
			if s.Multitask == "rollback" && o.begun {
				r.hides = append(r.hides, o)
			}
		}
	case s.Multitask == "reject" && busy:
		return "thread_busy"
	case active != nil && active.status == runtime.Waiting && active.asks != "front":
		return "thread_waiting"
	case active != nil && active.status == runtime.Waiting:
		m.cancel(active)
	}
	r.msgs = []*modelMessage{{name: fmt.Sprint("m", s.N), script: s.Script, size: stored(s), state: runtime.MessageQueued}}
	m.exists = true
	m.runs = append(m.runs, r)
	m.queue = append(m.queue, r)
	if s.State {
		r.takes = fmt.Sprintf(`{"from":%d}`, s.N)
	}
	return replied
}

func (m *Model) append(r *modelRun, s *Step) Reply {
	size, waits := stored(s), r.waits()
	switch {
	case size > m.room.atMost(false):
		return "content_too_large"
	case r.status == runtime.Cancelled:
		return "invalid_state"
	case waits > 0 && waits+size > m.room.inbox(): // one alone is taken
		return "inbox_full"
	}
	r.msgs = append(r.msgs, &modelMessage{name: fmt.Sprint("m", s.N), script: s.Script, size: size, state: runtime.MessageQueued})
	if r.status.Final() {
		m.restart(r)
	}
	return replied
}

// waits is the size of what the run has yet to take.
func (r *modelRun) waits() (size int) {
	for _, msg := range r.msgs {
		if msg.state == runtime.MessageQueued {
			size += msg.size
		}
	}
	return size
}

// restart queues a run that is over behind all others.
func (m *Model) restart(r *modelRun) {
	r.status, r.attempts, r.begun = runtime.Queued, 0, false
	r.generation++
	m.queue = append(m.queue, r)
}

func (m *Model) cancel(r *modelRun) Reply {
	switch r.status {
	case runtime.Cancelled:
		return replied
	case runtime.Completed, runtime.Failed:
		return "invalid_state"
	case runtime.Queued: // a generation that never started leaves no span, and what it was to take is hidden
		m.queue = slices.DeleteFunc(m.queue, func(o *modelRun) bool { return o == r })
		for _, msg := range r.msgs {
			if msg.state == runtime.MessageQueued {
				msg.state = runtime.MessageHidden
			}
		}
	default:
		r.take(math.MaxInt)
		m.end(r, "cancelled", runtime.Cancelled)
	}
	r.status = runtime.Cancelled
	return replied
}

// take brings what is queued for the run into the log, of which there may be more than fits at once.
func (r *modelRun) take(most int) (taken []*modelMessage) {
	for _, msg := range r.msgs {
		if msg.state == runtime.MessageQueued {
			if most -= msg.size; most < 0 && len(taken) > 0 {
				break
			}
			msg.state, msg.taken = runtime.MessageConsumed, r.generation
			taken = append(taken, msg)
		}
	}
	return taken
}

// end closes the run's span.
func (m *Model) end(r *modelRun, outcome string, status runtime.Status) {
	m.spans = append(m.spans, r.name+" "+outcome)
	m.stored = m.state
	r.status = status
	if status.Final() {
		r.todo, r.asks = nil, ""
	}
}

func (m *Model) answer(r *modelRun) Reply {
	if r.status != runtime.Waiting {
		return "invalid_request" // there is nothing to answer, and an empty answer is none
	}
	m.goOn(r)
	return replied
}

// goOn queues an answered run before all others.
func (m *Model) goOn(r *modelRun) {
	r.status, r.attempts, r.asks = runtime.Queued, 0, ""
	m.queue = slices.Insert(m.queue, 0, r)
}

func (m *Model) remove(r *modelRun) Reply {
	if !r.status.Final() {
		return "invalid_state"
	}
	m.runs = slices.DeleteFunc(m.runs, func(o *modelRun) bool { return o == r })
	m.spans = slices.DeleteFunc(m.spans, func(s string) bool { return strings.HasPrefix(s, r.name+" ") })
	return replied
}

// release lets the run that stays, or whose question has expired, go on.
func (m *Model) release(op string) {
	r := m.active()
	switch {
	case r == nil || r.asks != op:
	case r.status == runtime.Running:
		r.asks = ""
		m.play(r)
	default:
		m.goOn(r)
	}
}

// crash is the end of a process: the run that is RUNNING begins its work again, a few times.
func (m *Model) crash() {
	r := m.active()
	if r == nil || r.status != runtime.Running {
		return
	}
	if r.attempts++; r.attempts > 3 {
		m.fail(r)
	}
}

func (m *Model) fail(r *modelRun) {
	m.end(r, "error", runtime.Failed)
	if slices.ContainsFunc(r.msgs, func(msg *modelMessage) bool { return msg.state == runtime.MessageQueued }) {
		m.restart(r)
	}
}

// advance runs what is queued until one run stays or waits.
func (m *Model) advance() {
	for len(m.queue) > 0 && m.active() == nil {
		r := m.queue[0]
		m.queue = m.queue[1:]
		r.status = runtime.Running
		m.claim(r)
		m.play(r)
	}
	// A run that waits for its client's tools alone makes room for the next.
	if r := m.active(); r != nil && r.status == runtime.Waiting && r.asks == "front" && len(m.queue) > 0 {
		m.cancel(r)
		m.advance()
	}
}

// claim gives the run's worker what there is, unless it goes on with what it has.
func (m *Model) claim(r *modelRun) {
	if !r.begun {
		r.before = m.state
	}
	if !r.started {
		m.rollBack(r)
		if r.takes != "" {
			m.state = r.takes
		}
	}
	r.begun, r.started = true, true
	if r.todo != nil {
		return
	}
	taken := r.take(m.room.atMost(false))
	r.todo = slices.Concat(taken[len(taken)-1].script, Script{}) // the worker plays the last one
}

// rollBack hides what the generation that was cancelled to make room has taken, and restores the state before it.
func (m *Model) rollBack(r *modelRun) {
	for _, o := range r.hides { // one at most had begun
		for _, msg := range o.msgs {
			if msg.taken == o.generation {
				msg.state = runtime.MessageHidden
			}
		}
		m.state = o.before
	}
}

// play is the worker's work up to what it waits for.
func (m *Model) play(r *modelRun) {
	for {
		for len(r.todo) > 0 {
			op := r.todo[0]
			r.todo = r.todo[1:]
			switch op.Name {
			case "die":
				m.fail(r)
				return
			case "stay":
				r.asks, r.todo = op.Name, append(Script{}, r.todo...)
				return
			case "ask", "late", "front":
				r.asks, r.todo = op.Name, append(Script{}, r.todo...)
				m.end(r, "waiting", runtime.Waiting)
				return
			}
		}
		taken := r.take(math.MaxInt)
		if len(taken) == 0 {
			r.todo = nil
			m.end(r, "success", runtime.Completed)
			return
		}
		r.todo = Script{}
		for _, msg := range taken {
			r.todo = append(r.todo, msg.script...)
		}
	}
}
