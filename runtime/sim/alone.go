package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// GenerateAlone makes a history of one caller for PlayAlone, for so many processes at the same time; 0 means that the seed decides.
func GenerateAlone(seed uint64, servers int) *History {
	g := &generator{r: rand.New(rand.NewPCG(seed, 0xa10e)), w: weighs(seed)}
	h := &History{Seed: seed, SQLite: seed%20 == 0, Callers: make([][]Step, 1)}
	g.ops = g.some([]string{"say", "stay", "ask", "late", "front", "die", "stay", "ask", "go"}, 2+g.r.IntN(3))
	g.steps = append([]string{doStart}, g.some([]string{
		doStart, doAppend, doCancel, doAnswer, doDelete, doClear, doTitle, doRelease, doRelease, doAnswer, doPass, doCrash, doRestart, doStart, doClock, doAppend,
	}, 3+g.r.IntN(8))...)
	for range 2 + g.r.IntN(11) {
		h.Callers[0] = append(h.Callers[0], g.stepAlone())
	}
	if g.w.IntN(4) == 0 {
		h.Room = g.room()
		h.Room.Said, h.Room.Each = 0, 0 // the model does not know the runs' output
		g.weigh(h)
	}
	h.beside(cmp.Or(servers, serversOf(seed)))
	return h
}

func (g *generator) stepAlone() Step {
	g.n++
	s := Step{N: g.n, Do: g.pick(g.steps...), Thread: 1}
	if len(g.runs) == 0 {
		s.Do = doStart
	}
	switch s.Do {
	case doStart:
		s.Agent, s.Multitask = alone, g.pick("", "", "", "reject", "interrupt", "rollback")
		s.Script, s.State = g.flat(), g.r.IntN(4) == 0
		g.runs = append(g.runs, &Step{N: g.n})
	case doAppend:
		s.Run, s.Script = g.run(), g.flat()
	case doCancel, doDelete:
		s.Run = g.run()
	case doAnswer:
		s.Run, s.Choice = g.run(), g.r.IntN(4)
	case doClock:
		s.By = Duration(g.r.Int64N(int64(4*time.Minute))) - Duration(2*time.Minute)
	}
	return s
}

// flat returns a script of at most three ops without bodies, or with questions that are asked at once, of which one can expire.
func (g *generator) flat() Script {
	s := Script{}
	for range g.r.IntN(3) {
		op := Op{Name: g.pick(g.ops...)}
		if op.Name == "go" {
			op.Body = []Op{{Name: "ask"}, {Name: "ask"}, {Name: "ask"}}[:2+g.r.IntN(2)]
			op.Body[g.r.IntN(len(op.Body))].Name = g.pick("ask", "late")
		}
		s = append(s, op)
	}
	return s
}

// playAlone plays one step after the other.
func (c *callers) playAlone() {
	defer c.close()
	c.slow = true
	c.boots()
	m := NewModel(c.h.Room)
	for _, steps := range c.h.Callers {
		for i := range steps {
			s := &steps[i]
			c.stepAlone(s)
			want := m.Apply(s)
			c.sleep(200 * time.Millisecond)
			switch r := m.active(); {
			case c.several():
				c.await(m)
			case s.Do == doCrash && r != nil && r.status == runtime.Running:
				c.sleep(suspected)
			}
			c.compare(s, m, want)
			if len(c.findings) > 0 || c.ctx.Err() != nil {
				return
			}
		}
	}
	for range 50 { // waiting runs end, and the runs queued behind them
		c.release()
		c.sleep(20 * time.Millisecond)
		if c.several() {
			c.sleep(3 * time.Second)
		}
	}
	if p := c.server(); p != nil {
		(&checker{c, p}).audit()
	}
}

// suspected is how long it takes until a run goes on whose process was killed within a second of the run's claim.
const suspected = 32 * time.Second

func (c *callers) stepAlone(s *Step) {
	switch s.Do {
	case doRelease:
		c.release()
		c.note("%d what stays is released", s.N)
	case doPass:
		c.sleep(lateAfter(c.world) + 5*time.Second)
		c.note("%d time has passed", s.N)
	case doCrash:
		c.crashAlone()
	default:
		c.step(s)
	}
}

// crashAlone kills the process that executes a run, or any.
func (c *callers) crashAlone() {
	p := c.server()
	if p == nil {
		return
	}
	if v, err := p.shown(); err == nil {
		for i := range v.runs {
			p = cmp.Or(c.executor(&v.runs[i]), p)
		}
	}
	c.kill(p)
}

// await waits until several processes have done what one would have done at once: until all have looked for news, show the model's
// state, and one of them executes what is RUNNING.
func (c *callers) await(m *Model) {
	c.sleep(2 * time.Second)
	for range 10 * (10 + int(suspected/time.Second)) {
		if c.agrees(m) {
			return
		}
		c.sleep(100 * time.Millisecond)
	}
}

// agrees reports whether all processes show the model's state.
func (c *callers) agrees(m *Model) bool {
	for _, p := range c.serving() {
		v, err := p.shown()
		if err != nil || v.summary() != m.summary() || p.fenced() {
			return false
		}
		if slices.ContainsFunc(v.runs, func(r runtime.Run) bool { return r.Status == runtime.Running && c.executor(&r) == nil }) {
			return false
		}
	}
	return len(c.serving()) == len(c.cur)
}

// shown is the thread of a history for PlayAlone, an empty one if there is none.
func (p *process) shown() (*view, error) {
	v, err := p.view(1)
	if err == nil && v == nil {
		v = new(view)
		v.th.State = []byte("{}")
	}
	return v, err
}

// compare compares the state with the model's.
func (c *callers) compare(s *Step, m *Model, want Reply) {
	if got := c.lastReply(s); got != want {
		c.find(RuleModel, "%s %d was answered %s, and the model says %s", s.Do, s.N, got, want)
	}
	p := c.server()
	if p == nil {
		return // no server starts, which is a finding already
	}
	v, err := p.shown()
	if err != nil {
		c.find(RuleModel, "the thread cannot be read: %v", err)
		return
	}
	if got, want := v.summary(), m.summary(); got != want {
		c.find(RuleModel, "after %s %d:\n   there is %s\n   it should %s", s.Do, s.N, got, want)
	}
	if len(c.findings) > 0 {
		c.final = append(c.final, v)
	}
}

// lastReply returns the reply to a step. A step without a request always succeeds.
func (c *callers) lastReply(s *Step) Reply {
	for _, r := range c.replies {
		var e *runtime.Error
		switch {
		case r.step.N != s.N || r.err == nil:
		case errors.As(r.err, &e):
			return Reply(e.Code)
		default:
			return Reply(r.err.Error())
		}
	}
	if s.Run != 0 && c.known(s.Run) == nil {
		return "not_found"
	}
	return replied
}

// summary returns a thread's runs, messages, state and spans in one line.
func (v *view) summary() string {
	var parts []string
	for i := range v.runs {
		r := &v.runs[i]
		words := []string{fmt.Sprintf("%s %s %d", r.ID, r.Status, r.Generation)}
		for _, msg := range v.messages[r.ID] {
			if msg.Role == agui.RoleUser {
				name, _, _ := strings.Cut(msg.Text(), ":")
				words = append(words, name+"-"+string(msg.State))
			}
		}
		parts = append(parts, strings.Join(words, " "))
	}
	var spans []string
	for i := range v.log {
		if isEnd(v.log[i].ev) {
			spans = append(spans, v.log[i].run+" "+outcome(v.log[i].ev))
		}
	}
	return fmt.Sprintf("%s; %s; %s", strings.Join(parts, ", "), v.th.State, strings.Join(spans, ", "))
}

// summary returns the model's thread in the form of view.summary.
func (m *Model) summary() string {
	var parts []string
	for _, r := range m.runs {
		words := []string{fmt.Sprintf("%s %s %d", r.name, r.status, r.generation)}
		for _, state := range []runtime.MessageState{runtime.MessageConsumed, runtime.MessageQueued} {
			for _, msg := range r.msgs {
				if msg.state == state {
					words = append(words, msg.name+"-"+string(msg.state))
				}
			}
		}
		parts = append(parts, strings.Join(words, " "))
	}
	return fmt.Sprintf("%s; %s; %s", strings.Join(parts, ", "), m.stored, strings.Join(m.spans, ", "))
}
