package decide_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
)

const me = "instance"

// table is a database of one thread, filled only from the rows of decisions.
type table struct {
	now      time.Time
	thread   *data.ThreadHead
	runs     map[int64]data.RunHead
	messages []data.Message // keys set
	asked    []data.Asked
	names    map[data.Name]data.NamedRun
	keys     map[string]data.Remembered
	place    data.Place // in the queue
	events   []int64    // ids, in the order they were stored
	ended    int        // ended generations that the statistics counted
}

// view returns the view that a store would load.
func (t *table) view(ask data.Ask) *data.View {
	v := &data.View{Now: t.now, Inbox: make(map[int64]data.Inbox), Known: make(map[string]bool), Names: t.names, Remembered: t.keys}
	if t.thread != nil {
		v.Exists, v.Thread = true, *t.thread
	}
	for _, r := range t.runs {
		if !r.Status.Final() || slices.Contains(ask.Runs, r.Key) {
			v.Runs = append(v.Runs, r)
		}
	}
	slices.SortFunc(v.Runs, func(a, b data.RunHead) int { return int(a.Key - b.Key) })
	for _, m := range t.messages {
		v.Known[m.ID] = true
		if m.State == data.MessageQueued {
			in := v.Inbox[m.RunKey]
			in.Messages, in.Bytes, in.Last = in.Messages+1, in.Bytes+len(m.Content), m.Key
			v.Inbox[m.RunKey] = in
		}
	}
	for _, a := range t.asked {
		if r := t.runs[a.RunKey]; !r.Status.Final() || slices.Contains(ask.Interrupts, a.ID) {
			v.Asked = append(v.Asked, a)
		}
	}
	return v
}

// write applies a decision's changes.
func (t *table) write(tb testing.TB, c data.Changes) {
	tb.Helper()
	for _, row := range c.Rows {
		switch row := row.(type) {
		case *data.RunEnded:
			t.ended++
		case *data.Place:
			t.place = *row
		case *data.Thread:
			if t.thread != nil {
				tb.Fatal("a thread is inserted twice")
			}
			head := row.ThreadHead
			t.thread = &head
		case *data.ThreadHead:
			*t.thread = *row
		case *data.Run:
			t.runs[row.Key] = row.RunHead
		case *data.RunHead:
			t.runs[row.Key] = *row
		case *data.RunName:
			t.names[data.Name{Project: row.Project, User: row.User, ID: row.Name}] = data.NamedRun{RunKey: row.RunKey, BodyHash: row.BodyHash}
		case *data.Message:
			m := *row
			m.Key = int64(len(t.messages) + 1)
			t.messages = append(t.messages, m)
		case *data.Hide:
			for i := range t.messages {
				if m := &t.messages[i]; row.Queued && m.RunKey == row.RunKey && m.State == data.MessageQueued {
					m.State = data.MessageHidden
				}
			}
		case *data.Answer:
			t.mark(row.RunKey, func(a *data.Asked) {
				if a.ID == row.ID {
					a.Status, a.Expired = data.InterruptAnswered, row.Payload == nil
				}
			})
		case *data.Withdraw:
			t.mark(row.RunKey, func(a *data.Asked) { a.Status = data.Withdrawn(a.Status) })
		}
	}
	for _, e := range c.Events {
		t.events = append(t.events, e.ID)
	}
}

// mark changes a run's interrupts.
func (t *table) mark(run int64, change func(*data.Asked)) {
	for i := range t.asked {
		if a := &t.asked[i]; a.RunKey == run {
			change(a)
		}
	}
}

// taken marks a run's queued messages as consumed.
func (t *table) taken(run int64) {
	for i := range t.messages {
		if m := &t.messages[i]; m.RunKey == run && m.State == data.MessageQueued {
			m.State = data.MessageConsumed
		}
	}
}

// check checks the invariants of a thread.
func (t *table) check(tb testing.TB) {
	tb.Helper()
	for i, id := range t.events {
		if id != int64(i+1) {
			tb.Fatalf("got event id %d, want %d", id, i+1)
		}
	}
	active, ended := 0, 0
	for _, r := range t.runs {
		if ended += r.Generation - 1; r.Status.Final() {
			ended++
		}
		if r.Status == data.Running || r.Status == data.Waiting {
			active++
		}
		if (r.Status == data.Running) != (r.Owner != "") {
			tb.Fatalf("run %d is %s and has the owner %q", r.Key, r.Status, r.Owner)
		}
	}
	if want := decide.PlaceOf(t.view(data.Ask{})); t.place != want && (t.place != data.Place{} || want.Todo != data.NoTodo) {
		tb.Fatalf("the queue has %+v, want %+v", t.place, want)
	}
	if ended != t.ended {
		tb.Fatalf("%d generations have ended, and %d are counted", ended, t.ended)
	}
	if active > 1 {
		tb.Fatalf("%d runs are RUNNING or WAITING", active)
	}
	for _, m := range t.messages {
		if s := t.runs[m.RunKey].Status; m.State == data.MessageQueued && s.Final() {
			tb.Fatalf("message %s waits for run %d, which is %s", m.ID, m.RunKey, s)
		}
	}
}

// player makes random commands like the engine's, some prepared on an outdated state.
type player struct {
	*rand.Rand
	t    *table
	last map[int64]int64 // last event of the RUNNING run, by run
	n    int64
}

func (p *player) anyRun() int64 {
	if p.n == 0 || p.IntN(20) == 0 {
		return 999
	}
	return 1 + p.Int64N(p.n)
}

func (p *player) basis(run *data.RunHead) decide.Basis {
	answers := 0
	for _, a := range p.t.asked {
		if a.RunKey == run.Key && a.Status == data.InterruptAnswered {
			answers++
		}
	}
	b := decide.BasisOf(p.head(), run, p.t.view(data.Ask{}).Inbox[run.Key].Last, answers)
	if p.IntN(8) == 0 {
		b.Last++
	}
	return b
}

func (p *player) head() *data.ThreadHead {
	if p.t.thread == nil {
		return &data.ThreadHead{Key: 1, ID: "t"}
	}
	return p.t.thread
}

// events returns two events: a span's first and last, or its continuation.
func events(first int64) []data.StoredEvent {
	return []data.StoredEvent{{ID: first}, {ID: first + 1}}
}

func (p *player) command() decide.Command {
	th, key := p.head(), p.anyRun()
	run := p.t.runs[key]
	run.Key = key
	switch p.IntN(12) {
	case 0, 1, 2:
		return p.start(th)
	case 3, 4:
		return &decide.Append{
			Thread: 1, Run: key, Message: p.message(), Size: 3,
			Limits: decide.Limits{PerThread: 6, InboxBytes: 9, Queue: 30},
		}
	case 5:
		return &decide.Cancel{Thread: 1, Run: key, Until: p.Int64N(2) * p.Int64N(th.LastEventID+2)}
	case 6:
		first := th.LastEventID + 1
		basis := p.basis(&run)
		return &decide.Finish{
			Thread: 1, Run: key, To: []data.Status{data.Cancelled, data.Failed}[p.IntN(2)], Basis: &basis,
			Span: data.Span{N: run.Spans + 1, First: first, Last: first + 1}, Seq: th.LastSeq, Events: events(first),
			Rows: []data.Row{&data.Hide{RunKey: key, Queued: true}, &data.Withdraw{RunKey: key}},
		}
	case 7, 8:
		return &decide.Claim{Thread: 1, Run: key, Instance: me, Basis: p.basis(&run), Events: events(th.LastEventID + 1)}
	case 9, 10:
		to := []data.Status{data.Completed, data.Failed, data.Cancelled, data.Waiting}[p.IntN(4)]
		last := p.last[key]
		c := &decide.Finish{
			Thread: 1, Run: key, Owner: me, To: to, Span: data.Span{N: run.Spans, Last: last + 2}, Seq: th.LastSeq + 1, Events: events(last + 1),
			Inbox: p.t.view(data.Ask{}).Inbox[key].Last,
		}
		if to.Final() {
			c.Rows = data.Rows{&data.Withdraw{RunKey: key}}
		}
		for range p.IntN(3) { // its questions are stored with the events before
			if to.Final() || run.Status != data.Running {
				break
			}
			p.t.asked = append(p.t.asked, data.Asked{
				RunKey: key, ID: fmt.Sprint("q", len(p.t.asked)), Frontend: p.IntN(2) == 0, Status: data.InterruptOpen,
			})
		}
		return c
	}
	var replies []decide.Reply
	for _, a := range p.t.asked {
		if a.RunKey == key && p.IntN(3) > 0 && (a.Status == data.InterruptOpen || p.IntN(9) == 0) {
			replies = append(replies, decide.Reply{Interrupt: a.ID, Payload: []byte("1"), Output: []byte("1")})
		}
	}
	return &decide.Resume{Thread: 1, Run: key, Replies: replies}
}

func (p *player) start(th *data.ThreadHead) decide.Command {
	p.n++
	c := &decide.Start{
		Thread: data.Thread{ThreadHead: data.ThreadHead{Key: 1, ID: "t"}}, New: p.t.thread == nil,
		Run:       data.Run{RunHead: data.RunHead{Key: p.n, ThreadKey: 1, ID: fmt.Sprint("r", p.n), Agent: "a", WorkflowID: "a"}},
		Multitask: []decide.Multitask{"", decide.RejectRun, decide.InterruptRuns, decide.RollbackRuns}[p.IntN(4)],
		Messages:  []data.Message{p.message()}, Size: 3, Limits: decide.Limits{PerThread: 6},
	}
	if p.IntN(3) > 0 {
		c.Claim = &decide.Claim{
			Thread: 1, Run: p.n, Instance: me, Events: events(th.LastEventID + 1), Basis: decide.BasisOf(th, &c.Run.RunHead, 0, 0),
		}
	}
	return c
}

func (p *player) message() data.Message {
	return data.Message{State: data.MessageQueued, Message: agui.Message{ID: fmt.Sprint("m", p.Int64()), Role: agui.RoleUser, Content: "say"}}
}

// follow applies the effects of a decision's events to the table.
func (p *player) follow(c decide.Command, out *decide.Decided) {
	switch c := c.(type) {
	case *decide.Claim:
		p.claimed(c)
	case *decide.Start:
		if out.Claimed {
			p.claimed(c.Claim)
		}
	case *decide.Finish:
		if c.To == data.Cancelled || c.Basis != nil {
			p.t.taken(c.Run)
		}
	}
}

func (p *player) claimed(c *decide.Claim) {
	p.last[c.Run] = p.t.events[len(p.t.events)-1]
	p.t.mark(c.Run, func(a *data.Asked) {
		if a.Status == data.InterruptAnswered {
			a.Status = data.InterruptResolved
		}
	})
	if !c.Basis.Answered {
		p.t.taken(c.Run)
	}
}

// Random commands, some of them stale, leave no gap or repeat in the event ids and at most one active run. A refused
// command changes nothing, and the view always agrees with the rows.
func TestDecide_RandomCommandsKeepInvariants(t *testing.T) {
	kinds := make(map[string]int)
	for seed := range uint64(400) {
		tab := &table{
			now: time.Unix(0, 0), runs: make(map[int64]data.RunHead), names: make(map[data.Name]data.NamedRun),
			keys: make(map[string]data.Remembered),
		}
		p := &player{Rand: rand.New(rand.NewPCG(seed, 1)), t: tab, last: make(map[int64]int64)}
		for range 60 {
			tab.now = tab.now.Add(time.Duration(p.IntN(3)-1) * time.Second) // clocks also step back
			c := p.command()
			v, before := tab.view(c.Ask()), tab.view(c.Ask())
			v.Queued.All = 1 + p.IntN(30) // sometimes at the queue's limit
			before.Queued = v.Queued
			out := decide.Decide(v, c)
			kind := fmt.Sprintf("%T", c)
			if f, ok := c.(*decide.Finish); ok && f.Basis != nil {
				kind += " unexecuted"
			}
			kinds[fmt.Sprint(kind, " ", out.Refused == nil)]++
			if out.Refused != nil {
				if _, ok := errors.AsType[*data.Error](out.Refused); !ok {
					t.Fatalf("seed %d: %T: %v", seed, c, out.Refused)
				}
				if !reflect.DeepEqual(before, v) || len(out.Rows)+len(out.Events) > 0 {
					t.Fatalf("seed %d: %T was refused and has changed the view:\n%s", seed, c, cmp.Diff(before, v))
				}
				continue
			}
			tab.write(t, out.Changes)
			p.follow(c, out)
			if rows, view := known(tab.view(c.Ask()), v.Asked), known(v, v.Asked); !reflect.DeepEqual(rows, view) {
				t.Fatalf("seed %d: after %T the view differs from the rows (-rows +view):\n%s", seed, c, cmp.Diff(rows, view))
			}
			tab.check(t)
		}
	}
	for _, kind := range []string{"Start", "Append", "Cancel", "Claim", "Finish", "Finish unexecuted", "Resume"} {
		for _, ok := range []bool{true, false} {
			if n := kinds[fmt.Sprintf("*decide.%s %v", kind, ok)]; n < 20 {
				t.Errorf("%s with accepted %v was played %d times", kind, ok, n)
			}
		}
	}
}

// known returns the part of a view on which a later decision of the same batch relies.
// A run's questions reach the rows with the events of its span, and the view later.
func known(v *data.View, asked []data.Asked) any {
	type state struct {
		Thread data.ThreadHead
		Runs   map[int64]data.RunHead
		Inbox  map[int64]int
		Asked  map[string]data.Asked
	}
	s := state{v.Thread, make(map[int64]data.RunHead), make(map[int64]int), make(map[string]data.Asked)}
	for _, a := range v.Asked {
		if slices.ContainsFunc(asked, func(b data.Asked) bool { return a.ID == b.ID && !v.Run(a.RunKey).Status.Final() }) {
			s.Asked[a.ID] = a
		}
	}
	for _, r := range v.Runs {
		if !r.Status.Final() {
			s.Runs[r.Key] = r
			s.Inbox[r.Key] = v.Inbox[r.Key].Messages
		}
	}
	return s
}
