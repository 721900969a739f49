package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime"
)

// Model is a thread as seen by callers that make one request at a time and wait until the engine is idle. It predicts
// the answers, runs, messages and spans from the protocol alone.
type Model struct {
	runs   []*modelRun // in the order of their creation
	queue  []*modelRun // QUEUED, in the order of execution
	spans  []string    // "run outcome" of closed spans, in the log's order
	state  string
	stored string // state at the end of the latest span
	exists bool
	room   *Room
}

// modelRun is one run. Its worker plays scripts until it waits.
type modelRun struct {
	name       string
	status     runtime.Status
	generation int
	attempts   int         // consecutive crashes
	begun      bool        // this generation has a span
	started    bool        // any generation has a span
	before     string      // the thread's state before this generation
	takes      string      // the state in its request
	hides      []*modelRun // runs to roll back

	todo Script   // the rest of its worker's scripts
	open []string // the ops for which it waits
	msgs []*modelMessage
}

// modelMessage is a message to a run.
type modelMessage struct {
	name   string
	script Script
	size   int
	state  runtime.MessageState
	taken  int // the generation that read it
}

// Reply is the answer to a request: done, or the code of a refusal.
type Reply string

const replied Reply = "done"

// NewModel returns an empty thread, in a room or nil.
func NewModel(room *Room) *Model { return &Model{state: "{}", stored: "{}", room: room} }

func (m *Model) find(name string) *modelRun {
	for _, r := range m.runs {
		if r.name == name {
			return r
		}
	}
	return nil
}

// active returns the RUNNING or WAITING run, or nil.
func (m *Model) active() *modelRun {
	for _, r := range m.runs {
		if r.status == runtime.Running || r.status == runtime.Waiting {
			return r
		}
	}
	return nil
}

// Apply applies a step and its consequences.
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
	case doClock: // the time does not matter
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
		return m.answer(r, s)
	case doDelete:
		return m.remove(r)
	}
	panic("the model does not know " + s.Do)
}

func (m *Model) start(s *Step) Reply {
	if old := m.find(fmt.Sprint("r", s.N)); old != nil {
		return replied // a repeated request gets the same run
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
	case active != nil && active.status == runtime.Waiting && active.open[0] != "front":
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
	case waits > 0 && waits+size > m.room.inbox(): // a single message always fits
		return "inbox_full"
	}
	r.msgs = append(r.msgs, &modelMessage{name: fmt.Sprint("m", s.N), script: s.Script, size: size, state: runtime.MessageQueued})
	if r.status.Final() {
		m.restart(r)
	}
	return replied
}

// waits returns the size of the run's queued messages.
func (r *modelRun) waits() (size int) {
	for _, msg := range r.msgs {
		if msg.state == runtime.MessageQueued {
			size += msg.size
		}
	}
	return size
}

// restart queues an ended run behind all others.
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
	case runtime.Queued: // a generation without a span leaves none, and its messages are hidden
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

// take moves the run's queued messages into the log, up to a size.
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
		r.todo, r.open = nil, nil
	}
}

func (m *Model) answer(r *modelRun, s *Step) Reply {
	if r.status != runtime.Waiting {
		return "invalid_request" // an answer to no question is empty
	}
	r.open = r.open[:s.leaves(len(r.open))]
	m.goOn(r)
	return replied
}

// goOn queues an answered run before all others.
func (m *Model) goOn(r *modelRun) {
	r.status, r.attempts = runtime.Queued, 0
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

// release continues a run that stays, or of whose questions one has expired.
func (m *Model) release(op string) {
	r := m.active()
	if r == nil || !slices.Contains(r.open, op) {
		return
	}
	r.open = slices.DeleteFunc(r.open, func(o string) bool { return o == op })
	if r.status == runtime.Running { // with a record more
		r.attempts = 0
		m.play(r)
		return
	}
	m.goOn(r)
}

// crash ends the process: the RUNNING run starts its work again, a few times.
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

// advance executes queued runs until one stays or waits.
func (m *Model) advance() {
	for len(m.queue) > 0 && m.active() == nil {
		r := m.queue[0]
		m.queue = m.queue[1:]
		r.status = runtime.Running
		m.claim(r)
		m.play(r)
	}
	// A run that waits only for its client's tools makes room for the next one.
	if r := m.active(); r != nil && r.status == runtime.Waiting && r.open[0] == "front" && len(m.queue) > 0 {
		m.cancel(r)
		m.advance()
	}
}

// claim gives the run's worker its messages, unless it continues with the old ones.
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
	r.todo = slices.Concat(taken[len(taken)-1].script, Script{}) // the worker plays the last script
}

// rollBack hides the messages of the replaced generation and restores the state before it.
func (m *Model) rollBack(r *modelRun) {
	for _, o := range r.hides { // one of them at most had begun
		for _, msg := range o.msgs {
			if msg.taken == o.generation {
				msg.state = runtime.MessageHidden
			}
		}
		m.state = o.before
	}
}

// play plays the worker's script until it waits.
func (m *Model) play(r *modelRun) {
	for {
		if len(r.open) > 0 { // of its questions, not all were answered
			m.end(r, "waiting", runtime.Waiting)
			return
		}
		for len(r.todo) > 0 {
			op := r.todo[0]
			r.todo = r.todo[1:]
			switch op.Name {
			case "die":
				m.fail(r)
				return
			case "stay":
				r.open, r.todo = []string{op.Name}, append(Script{}, r.todo...)
				return
			case "ask", "late", "front":
				op = Op{Body: []Op{op}}
				fallthrough
			case "go":
				r.todo = append(Script{}, r.todo...)
				for _, part := range op.Body {
					r.open = append(r.open, part.Name)
				}
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
