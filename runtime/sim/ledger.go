package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// Execution is one tool call that a process started.
type Execution struct{ Process, Run, Tool, Call, Place, Args string }

// ledger records the observations and effects of workers and tools in all processes. Like external systems, it survives
// crashes.
type ledger struct {
	w *world

	mu         sync.Mutex // guards the fields below
	inputs     map[string]string
	executions []Execution
	reached    map[string]bool // ids of messages that a worker of their run has received
	approvals  map[string][]approval
	denials    map[string]bool       // places of declined questions
	rounds     map[round]int         // number of calls of each execution
	recorded   map[string]bool       // processes and places of each Do that has returned its record
	working    map[string][]*process // whose workers play at a place now
	asleep     map[string]time.Time  // places of sleeps, and when they began
	events     map[string]string     // places that have received an event, by its payload, and payloads by place, empty for a wait without
	without    []wait                // for events that have ended without one
}

// approval is an answer to the approval of a call, whether or not the engine accepted it.
type approval struct {
	approved bool
	edited   string // edited arguments, or empty
}

func newLedger(w *world) *ledger {
	return &ledger{
		w: w, inputs: make(map[string]string), reached: make(map[string]bool),
		approvals: make(map[string][]approval), denials: make(map[string]bool), recorded: make(map[string]bool), rounds: make(map[round]int), working: make(map[string][]*process),
		asleep: make(map[string]time.Time), events: make(map[string]string),
	}
}

// asked checks a worker's input: it is valid, and the same each time the step is called.
func (l *ledger) asked(place string, in *plugins.Input, messages []agui.Message) {
	if why := badPrompt(messages); why != "" {
		l.w.find(RulePrompt, "%s: %s in %s", place, shorter(why), outline(messages))
	}
	ids := make([]string, len(messages))
	for i := range messages {
		ids[i] = messages[i].ID
		l.took(in.RunID, ids[i])
		for _, c := range messages[i].ToolCalls {
			if !json.Valid([]byte(c.Arguments)) {
				l.w.find(RuleBare, "%s: the call %s has the arguments %q", place, short(c.ID), c.Arguments)
			}
		}
	}
	if l.w.h.Does(doDelete, doRetire) {
		ids = nil // the messages of a deleted run are gone
	}
	now := fmt.Sprintf("query %q state %s messages %v", in.Query, in.State, ids)
	l.mu.Lock()
	defer l.mu.Unlock()
	before, again := l.inputs[place]
	if again && before != now {
		l.w.find(RuleInput, "%s: asked %s, and before %s", place, now, before)
	}
	l.inputs[place] = now
}

// sleeps returns when the sleep of a place began.
func (l *ledger) sleeps(place string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, is := l.asleep[place]; !is {
		l.asleep[place] = time.Now()
	}
	return l.asleep[place]
}

// wait is the last call of a wait for an event.
type wait struct {
	run, place string
	began      time.Time
}

// received records the end of a wait, with the payload of an event or without. It must be the same on each replay.
func (l *ledger) received(run, place, payload string, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, again := l.events[place]
	if again && old != payload {
		l.w.find(RuleEvent, "%s: received %q, and before %q", place, payload, old)
	}
	if other := l.events[payload]; payload != "" && other != "" && other != place {
		l.w.find(RuleEvent, "%s: received the event %s, which %s had received", place, payload, other)
	}
	if l.events[place] = payload; payload != "" {
		l.events[payload] = place
	} else if !again {
		l.without = append(l.without, wait{run, place, began})
	}
}

// took records that a run's worker received a message.
func (l *ledger) took(run, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reached[run+" "+message] = true
}

// executed records a tool call, and checks that it was allowed.
func (l *ledger) executed(e Execution) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Tool == "gate" && !slices.ContainsFunc(l.approvals[e.Call], func(a approval) bool {
		return a.approved && (a.edited == "" || a.edited == e.Args)
	}) {
		l.w.find(RuleApproval, "%s: the call %s was made with %s, and its answers are %+v", e.Place, short(e.Call), e.Args, l.approvals[e.Call])
	}
	if e.Tool == "bare" && e.Args != "{}" {
		l.w.find(RuleBare, "a tool node without input was called with %s", e.Args)
	}
	if e.Tool != "idem" && e.Tool != "bare" {
		for _, old := range l.executions {
			if old.Call == e.Call {
				l.w.find(RuleOnce, "%s: %s called %s again, which %s had called", e.Place, e.Process, short(e.Call), old.Process)
			} else if old.Place == e.Place {
				l.w.find(RuleOnce, "%s: %s called %s, and %s had called it as %s", e.Place, e.Process, short(e.Call), old.Process, short(old.Call))
			}
		}
	}
	l.executions = append(l.executions, e)
}

// madeWith returns the arguments of an executed call.
func (l *ledger) madeWith(call string) (args string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.executions, func(e Execution) bool { return e.Call == call })
	if i < 0 {
		return "", false
	}
	return l.executions[i].Args, true
}

// answered records an answer to a call's approval.
func (l *ledger) answered(call string, a approval) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.approvals[call] = append(l.approvals[call], a)
}

// enters checks that no other process which may still execute the run is at a place. A worker may begin just as its process is killed,
// or before its process, which stood still, notices that it was fenced. enters returns what to call when the worker leaves.
func (l *ledger) enters(place string, p *process) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	zombie := p.dead.Load() || p.fenced()
	for _, other := range l.working[place] {
		if l.w.several() && !zombie && other != p && !other.dead.Load() && !other.leaves.Load() && !other.fenced() {
			l.w.find(RuleOwner, "%s: a worker of %s begins, and one of %s is there", place, p, other)
		}
	}
	if !p.able() {
		l.w.find(RuleOwner, "%s: a worker of %s begins, which may not execute it", place, p)
	}
	l.working[place] = append(l.working[place], p)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		i := slices.Index(l.working[place], p)
		l.working[place] = slices.Delete(l.working[place], i, i+1)
	}
}

// did records that a Do has returned its record.
func (l *ledger) did(place string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recorded[place] = true
}

// does checks that a Do about to run has no record yet.
func (l *ledger) does(place string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.recorded[place] {
		l.w.find(RuleOnce, "%s: what a Do has done is done again, though its record was seen", place)
	}
}

func (l *ledger) decline(place string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.denials[place] = true
}

// declined checks that the question at a place was declined. It does not expire.
func (l *ledger) declined(place string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.denials[place] {
		l.w.find(RuleAnswer, "%s: the question counts as declined, and nobody declined it", place)
	}
}

// badPrompt returns an error if a call has no result behind it or a result no call, which model providers refuse.
func badPrompt(msgs []agui.Message) string {
	seen := make(map[string]bool)
	var owed []string
	for i := range msgs {
		m := &msgs[i]
		if m.ID == "" || seen[m.ID] {
			return fmt.Sprintf("message %d has the id %q of another", i, m.ID)
		}
		seen[m.ID] = true
		if m.Role == agui.RoleTool {
			at := slices.Index(owed, m.ToolCallID)
			if at < 0 {
				return fmt.Sprintf("the result of %s has no call before it", m.ToolCallID)
			}
			owed = slices.Delete(owed, at, at+1)
			continue
		}
		if len(owed) > 0 && m.Role != agui.RoleReasoning && m.Role != agui.RoleActivity {
			return fmt.Sprintf("the call %s has no result behind it", owed[0])
		}
		for _, c := range m.ToolCalls {
			owed = append(owed, c.ID)
		}
	}
	if len(owed) > 0 {
		return fmt.Sprintf("the call %s has no result", owed[0])
	}
	return ""
}

// outline summarizes messages.
func outline(msgs []agui.Message) string {
	var words []string
	for i := range msgs {
		m := &msgs[i]
		words = append(words, string(m.Role), short(m.ID))
		for _, c := range m.ToolCalls {
			words = append(words, "calls", short(c.ID))
		}
		if m.ToolCallID != "" {
			words = append(words, "of", short(m.ToolCallID))
		}
		words = append(words, ";")
	}
	return strings.Join(words, " ")
}

// short returns the end of an id, which is enough to tell ids apart.
func short(id string) string {
	if len(id) == 36 {
		return id[30:]
	}
	return id
}
