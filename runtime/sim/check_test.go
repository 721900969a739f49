package sim

import (
	"fmt"
	"slices"
	"testing"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Each case breaks one rule, which the checker must find.

// span returns a legal span of run r1 with a text, a call and a step.
func span() []agui.Event {
	base := agui.Base{RunID: "r1"}
	return []agui.Event{
		agui.RunStarted{Base: base, Input: &agui.RunAgentInput{Messages: []agui.Message{{ID: "m1", Role: agui.RoleUser, Content: "m1: "}}}},
		agui.StepStarted{Base: base, StepName: "worker"},
		agui.TextMessageStart{Base: base, MessageID: "a", Role: agui.RoleAssistant},
		agui.TextMessageContent{Base: base, MessageID: "a", Delta: "hello"},
		agui.TextMessageEnd{Base: base, MessageID: "a", Output: &agui.WorkerOutput{Answer: "hello"}},
		agui.ToolCallStart{Base: base, ToolCallID: "c", ToolCallName: "note", ParentMessageID: "a"},
		agui.ToolCallArgs{Base: base, ToolCallID: "c", Delta: "{}"},
		agui.ToolCallEnd{Base: base, ToolCallID: "c"},
		agui.ToolCallResult{Base: base, MessageID: "t", ToolCallID: "c", Content: "did"},
		agui.StepFinished{Base: base, StepName: "worker"},
		agui.RunFinished{Base: base, Outcome: agui.Outcome{Type: agui.OutcomeSuccess}},
	}
}

// viewOf returns a thread with that log and the rows of span.
func viewOf(evs []agui.Event) *view {
	v := &view{n: 1, name: "t1", messages: make(map[string][]runtime.Message)}
	v.th.State = []byte("{}")
	for i, ev := range evs {
		v.log = append(v.log, event{int64(i + 1), ev.Common().RunID, ev.Common().RunID, ev, fmt.Sprint(ev)})
	}
	run := runtime.Run{}
	run.ID, run.Status, run.ClosedEvent = "r1", runtime.Completed, int64(len(evs))
	v.runs = []runtime.Run{run}
	for i, m := range []agui.Message{
		{ID: "m1", Role: agui.RoleUser, Content: "m1: "},
		{ID: "a", Role: agui.RoleAssistant, Content: "hello", ToolCalls: []agui.ToolCall{{ID: "c", Name: "note", Arguments: "{}"}}},
		{ID: "t", Role: agui.RoleTool, ToolCallID: "c", Content: "did"},
	} {
		v.messages["r1"] = append(v.messages["r1"], runtime.Message{Seq: int64(i + 1), State: runtime.MessageConsumed, Message: m})
	}
	v.history = v.messages["r1"]
	return v
}

func TestChecker_FindsBadLog(t *testing.T) {
	base := agui.Base{RunID: "r1"}
	without := func(i int) func() *view {
		return func() *view { return viewOf(slices.Delete(span(), i, i+1)) }
	}
	with := func(i int, ev agui.Event) func() *view {
		return func() *view { return viewOf(slices.Insert(span(), i, ev)) }
	}
	changed := func(f func(*view)) func() *view {
		return func() *view {
			v := viewOf(span())
			f(v)
			return v
		}
	}
	for _, test := range []struct {
		name string
		view func() *view
		want Rule // the first broken rule, empty for none
	}{
		{"sound", func() *view { return viewOf(span()) }, ""},
		{"no start", without(0), RuleSpan},
		{"two starts", with(1, agui.RunStarted{Base: base}), RuleSpan},
		{"a delta of no text", without(2), RuleSpan},
		{"a text without an end", without(4), RuleSpan},
		{"a call without a result", without(8), RuleCall},
		{"a call without arguments", without(6), RuleCall},
		{"a result without a call", without(5), RuleSpan},
		{"two results", with(9, agui.ToolCallResult{Base: base, MessageID: "u", ToolCallID: "c"}), RuleCall},
		{"an open step", without(9), RuleSpan},
		{"no end", without(10), RuleSpan},
		{"an event after the end", with(11, agui.Custom{Base: base}), RuleSpan},
		{"another run's event", with(3, agui.Custom{Base: agui.Base{RunID: "r2"}}), RuleSpan},
		{"a gap", changed(func(v *view) { v.log[5].id++ }), RuleIDs},
		{"a row less", changed(func(v *view) { v.messages["r1"] = v.messages["r1"][:2] }), RuleRows},
		{"a row of other content", changed(func(v *view) { v.messages["r1"][1].Content = "bye" }), RuleRows},
		{"one seq twice", changed(func(v *view) { v.messages["r1"][2].Seq = 2 }), RuleRows},
		{"history without a message", changed(func(v *view) { v.history = v.history[1:] }), RuleRows},
		{"another state", changed(func(v *view) { v.th.State = []byte(`{"a":1}`) }), RuleState},
		{"no state", changed(func(v *view) { v.th.State = []byte(`null`) }), RuleState},
		{"another status", changed(func(v *view) { v.runs[0].Status = runtime.Failed }), RuleStatus},
		{"another end", changed(func(v *view) { v.runs[0].ClosedEvent = 3 }), RuleStatus},
		{"two that run", changed(func(v *view) {
			two := runtime.Run{}
			two.Status = runtime.Running
			v.runs = append(v.runs, two, two)
		}), RuleActive},
	} {
		c, v := newChecker(&History{}), test.view()
		c.checkActive(v.runs)
		c.checkRows(v, c.checkLog(v))
		c.checkStatuses(v)
		wantFirst(t, test.name, c.world, test.want)
	}
}

func newChecker(h *History) *checker { return &checker{callers: newCallers(h, nil)} }

func wantFirst(t *testing.T, name string, w *world, want Rule) {
	t.Helper()
	got := Rule("")
	if len(w.findings) > 0 {
		got = w.findings[0].Rule
	}
	if got != want {
		t.Errorf("%s: broken %q, want %q: %+v", name, got, want, w.findings)
	}
}

func TestChecker_FindsBadReader(t *testing.T) {
	v := viewOf(span())
	var all []shown
	for _, e := range v.log {
		all = append(all, shown{e.id, e.as, e.json})
	}
	other := slices.Clone(all)
	other[3].json = "something else"
	for _, test := range []struct {
		name  string
		after int64
		shown []shown
		want  Rule
	}{
		{"all", 0, all, ""},
		{"from the middle", 4, all[4:], ""},
		{"from elsewhere than asked", 4, all[5:], RuleReader},
		{"a gap", 0, slices.Delete(slices.Clone(all), 2, 3), RuleReader},
		{"one twice", 0, slices.Insert(slices.Clone(all), 2, all[2]), RuleReader},
		{"other content", 0, other, RuleReader},
		{"more than there is", 0, append(slices.Clone(all), shown{12, "r1", "x"}), RuleReader},
	} {
		c := newChecker(&History{})
		c.readers.readings = []*reading{{what: "a reader", conv: "c", after: test.after, shown: test.shown}}
		c.checkReaders(map[string]*view{"c": v})
		wantFirst(t, test.name, c.world, test.want)
	}
	c := newChecker(&History{})
	c.readers.checkWatched(&reading{shown: []shown{{1, "r1", `{"type":"RUN_STARTED"}`}, {2, "r1", `{"type":"STEP_STARTED"}`}}})
	wantFirst(t, "a client that was not shown the end", c.world, RuleWatch)
}

func TestChecker_FindsBadPrompt(t *testing.T) {
	call := agui.Message{ID: "a", Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: "c"}}}
	result := agui.Message{ID: "t", Role: agui.RoleTool, ToolCallID: "c"}
	user := agui.Message{ID: "u", Role: agui.RoleUser}
	for _, test := range []struct {
		name string
		msgs []agui.Message
		bad  bool
	}{
		{"sound", []agui.Message{call, result, user}, false},
		{"no result", []agui.Message{call}, true},
		{"no call", []agui.Message{user, result}, true},
		{"something between", []agui.Message{call, user, result}, true},
		{"two results", []agui.Message{call, result, {ID: "v", Role: agui.RoleTool, ToolCallID: "c"}}, true},
		{"one id twice", []agui.Message{user, user}, true},
	} {
		if why := badPrompt(test.msgs); (why != "") != test.bad {
			t.Errorf("%s: %q", test.name, why)
		}
	}
}

func TestChecker_FindsBadCall(t *testing.T) {
	e := Execution{Tool: "note", Call: "c1", Place: "p1", Args: "{}"}
	again, elsewhere, gate, idem := e, e, e, e
	again.Call = "c2"
	elsewhere.Place, elsewhere.Call = "p2", "c2"
	gate.Tool = "gate"
	idem.Tool = "idem"
	edited := gate
	edited.Args = `{"edited":1}`
	for _, test := range []struct {
		name      string
		calls     []Execution
		approvals []approval
		want      Rule
	}{
		{"two places", []Execution{e, elsewhere}, nil, ""},
		{"one call twice", []Execution{e, e}, nil, RuleOnce},
		{"one place twice", []Execution{e, again}, nil, RuleOnce},
		{"idempotent", []Execution{idem, idem}, nil, ""},
		{"nobody was asked", []Execution{gate}, nil, RuleApproval},
		{"denied", []Execution{gate}, []approval{{}}, RuleApproval},
		{"approved", []Execution{gate}, []approval{{approved: true}}, ""},
		{"approved with other arguments", []Execution{gate}, []approval{{approved: true, edited: edited.Args}}, RuleApproval},
		{"with the arguments that were approved", []Execution{edited}, []approval{{approved: true, edited: edited.Args}}, ""},
	} {
		c := newChecker(&History{})
		for _, a := range test.approvals {
			c.ledger.answered("c1", a)
		}
		for _, call := range test.calls {
			c.ledger.executed(call)
		}
		wantFirst(t, test.name, c.world, test.want)
	}
}

func TestChecker_FindsBrokenPromise(t *testing.T) {
	start := func(f fate, run string) *reply {
		return &reply{step: Step{N: 1, Do: doStart, Key: 1}, fate: f, thread: 1, run: run}
	}
	for _, test := range []struct {
		name    string
		replies []*reply
		change  func(*view)
		want    Rule
	}{
		{"kept", nil, func(*view) {}, ""},
		{"refused and there", []*reply{start(refused, "r1")}, func(*view) {}, RuleRefused},
		{"one key, two runs", []*reply{start(done, "r1"), start(done, "r2")}, func(*view) {}, RuleKey},
		{"cancelled by nobody", nil, func(v *view) { v.runs[0].Status = runtime.Cancelled }, RuleWhole},
		{"cancelled by somebody", []*reply{{step: Step{Do: doCancel}, fate: done, run: "r1"}}, func(v *view) {
			v.runs[0].Status = runtime.Cancelled
		}, ""},
		{"another title", nil, func(v *view) { v.th.Title = "x" }, RuleAck},
		{"a message that reached nobody", nil, func(v *view) { v.runs[0].WorkflowID = alone }, RuleReach},
	} {
		c, v := newChecker(&History{}), viewOf(span())
		test.change(v)
		c.replies = test.replies
		k := &claims{checker: c, convs: map[string]*view{"c": v}, texts: make(map[string][]string), spoilt: make(map[string]bool)}
		k.index(v)
		k.causes(v)
		k.reached(v)
		for _, r := range test.replies {
			if r.fate == refused {
				k.started(r)
			}
		}
		k.keys()
		k.titles()
		wantFirst(t, test.name, c.world, test.want)
	}
}

func TestChecker_FindsWrongRefusal(t *testing.T) {
	refuses := func(kind runtime.Kind, code string) error { return &runtime.Error{Kind: kind, Code: code} }
	for _, test := range []struct {
		name string
		do   string
		pad  int
		err  error
		want Rule
	}{
		{"taken", doStart, 100, nil, ""},
		{"taken though it is too much", doStart, 900, nil, RuleBound},
		{"appended though it is too much", doAppend, 2000, nil, RuleBound},
		{"too much for one request alone", doAppend, 900, nil, ""},
		{"refused as too much", doStart, 900, refuses(runtime.KindTooLarge, "messages_too_large"), ""},
		{"refused though it is little", doStart, 100, refuses(runtime.KindTooLarge, "messages_too_large"), RuleBound},
		{"refused though an event could hold it", doAppend, 900, refuses(runtime.KindTooLarge, "content_too_large"), RuleBound},
		{"refused though nothing waits", doAppend, 500, refuses(runtime.KindOverloaded, "inbox_full"), RuleBound},
		{"refused as too much waits", doAppend, 900, refuses(runtime.KindOverloaded, "inbox_full"), ""},
		{"refused though any number may be queued", doStart, 0, refuses(runtime.KindOverloaded, "queue_full"), RuleBound},
		{"refused for something else", doStart, 0, refuses(runtime.KindConflict, "thread_busy"), ""},
	} {
		c := newChecker(&History{Room: &Room{Light: 100, Asked: 500, Inbox: 800, Event: 2000}})
		r := &reply{step: Step{N: 1, Do: test.do, Pad: test.pad}, err: test.err, fate: done, run: "r1"}
		if test.err != nil {
			r.fate = refused
		}
		c.replies = []*reply{r}
		c.checkRefused(r)
		wantFirst(t, test.name, c.world, test.want)
	}
}

func TestChecker_FindsTooMuchOutput(t *testing.T) {
	failed := func(code string) *view {
		evs := span()
		evs[len(evs)-1] = agui.RunError{Base: agui.Base{RunID: "r1"}, Code: code}
		return viewOf(evs)
	}
	for _, test := range []struct {
		name, code string
		room       *Room
		want       Rule
	}{
		{"its worker's own failure", "broken", nil, ""},
		{"nothing bounds it", "overloaded", nil, RuleFull},
		{"another thing is bound", "event_too_large", &Room{Each: 1000}, RuleFull},
		{"there is more room than all have said", "overloaded", &Room{Said: 1 << 20}, RuleFull},
		{"it has said less than one may", "messages_too_large", &Room{Each: 1 << 20}, RuleFull},
		{"too much", "overloaded", &Room{Said: 1000}, ""},
		{"too much for one", "messages_too_large", &Room{Each: 1000}, ""},
	} {
		c := newChecker(&History{Room: test.room})
		c.checkSaid([]*view{failed(test.code)})
		wantFirst(t, test.name, c.world, test.want)
	}
}

func TestChecker_FindsEndlessRun(t *testing.T) {
	run := func(generation int) *runtime.Run {
		r := &runtime.Run{}
		r.ID, r.WorkflowID, r.Generation = "r1", alone, generation
		return r
	}
	for _, test := range []struct {
		name                         string
		generation, execution, calls int
		appended                     fate
		want                         Rule
	}{
		{"once", 1, 1, 1, "", ""},
		{"again without a reason", 1, 1, 2, "", RuleRounds},
		{"executed again without a failure", 1, 2, 1, "", RuleRounds},
		{"begun again without a message", 2, 1, 1, "", RuleRounds},
		{"begun again for a message that was refused", 2, 1, 1, refused, RuleRounds},
		{"begun again for a message", 2, 1, 1, done, ""},
		{"begun again and again for one", 3, 1, 1, done, RuleRounds},
	} {
		c, v := newChecker(&History{Callers: [][]Step{{{Do: doAppend, Times: 3}}}}), viewOf(span())
		c.all = make([]*process, 1)
		v.runs = []runtime.Run{*run(test.generation)}
		if test.appended != "" {
			c.replies = []*reply{{step: Step{Do: doAppend}, fate: test.appended, run: "r1"}}
		}
		for range test.calls {
			c.ledger.called(&v.runs[0], "worker", test.execution)
		}
		c.checkRounds(v)
		wantFirst(t, test.name, c.world, test.want)
	}
	c := newChecker(&History{})
	if c.ledger.called(run(2), "worker", 1) {
		t.Error("a worker is called in a second generation for nobody's message")
	}
	wantFirst(t, "a second generation", c.world, RuleRounds)
}
