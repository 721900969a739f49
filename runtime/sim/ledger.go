package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// Execution is one call of a tool that a process began.
type Execution struct{ Process, Run, Tool, Call, Place, Args string }

// ledger notes what the workers and tools of all processes have seen and done. A real world would keep it in
// the systems that tools talk to: no crash takes anything back.
type ledger struct {
	w *world

	mu         sync.Mutex // guards the fields below
	inputs     map[string]string
	executions []Execution
	reached    map[string]bool // message ids that a worker of their run has been given
	approvals  map[string][]approval
	denials    map[string]bool // places of questions that somebody declined
	rounds     map[round]int   // how often each execution was called
	recorded   map[string]bool // processes and places of a Do that has returned its record
}

// approval is what somebody has answered to the question whether a call may be made, whether or not the
// answer was taken.
type approval struct {
	approved bool
	edited   string // the arguments, if they were edited
}

func newLedger(w *world) *ledger {
	return &ledger{
		w: w, inputs: make(map[string]string), reached: make(map[string]bool),
		approvals: make(map[string][]approval), denials: make(map[string]bool), recorded: make(map[string]bool), rounds: make(map[round]int),
	}
}

// asked notes the input of a worker's call, which is valid and the same each time the step is called again.
func (l *ledger) asked(place string, in *plugins.Input) {
	if why := badPrompt(in.Messages); why != "" {
		l.w.find(RulePrompt, "%s: %s in %s", place, shorter(why), outline(in.Messages))
	}
	ids := make([]string, len(in.Messages))
	for i := range in.Messages {
		ids[i] = in.Messages[i].ID
		l.took(in.RunID, ids[i])
		for _, c := range in.Messages[i].ToolCalls {
			if c.Arguments != "" && !json.Valid([]byte(c.Arguments)) {
				l.w.find(RuleBare, "%s: the call %s has the arguments %q", place, short(c.ID), c.Arguments)
			}
		}
	}
	if l.w.h.Does(doDelete, doRetire) {
		ids = nil // what a deleted run has said is gone for all
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

// took notes that a run's worker was given a message.
func (l *ledger) took(run, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reached[run+" "+message] = true
}

// executed notes that a tool was called, and whether it might be.
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

// madeWith is what a call was made with, if it was made.
func (l *ledger) madeWith(call string) (args string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.executions, func(e Execution) bool { return e.Call == call })
	if i < 0 {
		return "", false
	}
	return l.executions[i].Args, true
}

// answered notes the answer that somebody gives to the question about a call.
func (l *ledger) answered(call string, a approval) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.approvals[call] = append(l.approvals[call], a)
}

// did notes that a Do has returned, with its record.
func (l *ledger) did(place string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recorded[place] = true
}

// does checks that what a Do is about to do has not been recorded.
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

// declined checks that somebody has declined the question asked at a place, which does not expire.
func (l *ledger) declined(place string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.denials[place] {
		l.w.find(RuleAnswer, "%s: the question counts as declined, and nobody declined it", place)
	}
}

// badPrompt says what is wrong with a prompt: providers refuse one in which a call has no result behind it, or
// a result no call.
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

// outline shows messages in few words.
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

// short is the end of an id, which is enough to tell ids apart.
func short(id string) string {
	if len(id) == 36 {
		return id[30:]
	}
	return id
}
