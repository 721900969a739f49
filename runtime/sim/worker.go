package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// errDied ends the workers of a dead process.
var errDied = errors.New("the process is dead")

// worker plays the script in the last user message, then those in appended messages.
type worker struct {
	p    *process
	name string
}

func (a worker) Info() plugins.Info { return plugins.Info{Name: a.name, RunOn: able} }

func (a worker) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	pl := &player{w: a.p.w, p: a.p, run: run}
	query := run.Input.Query
	if a.name == helper { // the caller passes its place on
		var found bool
		if pl.place, query, found = strings.Cut(query, "|"); !found {
			pl.place = "alone"
		}
	} else {
		if err := pl.begin(ctx); err != nil {
			return agui.WorkerOutput{}, err
		}
		defer pl.w.ledger.enters(pl.place, pl.p)()
	}
	if run.Input.Node == mapNode && a.name != helper {
		query = pl.query
	}
	_, script := message(query)
	if n := run.Input.Node; a.name != helper && (n == "a" || n == "b" || n == "c" || n == mapNode) {
		return agui.WorkerOutput{Answer: pl.nodeAnswer()}, pl.play(ctx, pl.place+"/q", body(script, n))
	}
	if err := pl.play(ctx, pl.place+"/q", script); err != nil {
		return agui.WorkerOutput{}, err
	}
	if a.name == helper {
		return agui.WorkerOutput{Answer: "helped " + pl.place}, nil
	}
	return agui.WorkerOutput{}, pl.playAppended(ctx)
}

// Agents: worker runs alone and as the nodes of flow, and helper is a sub-agent. east and west are workers that not every server has.
const (
	alone  = "worker"
	helper = "helper"
	flow   = "flow"
	east   = "east"
	west   = "west"
)

// mapNode is the node of flow with a map. The query of an item is its key, a bar, and that of the run.
const mapNode = "m"

// message splits a message into its name and script. Any other text is the script say.
func message(text string) (name string, s Script) {
	if name, rest, ok := strings.Cut(text, ": "); ok && strings.HasPrefix(name, "m") {
		if s, err := parse(rest); err == nil {
			return name, s
		}
	}
	return "", Script{{Name: "say"}}
}

// body returns the script of a node.
func body(s Script, node string) Script {
	var all Script
	for _, op := range s {
		if op.Name == node {
			all = append(all, op.Body...)
		}
	}
	return all
}

// player plays scripts for one call of a worker.
type player struct {
	w     *world
	p     *process
	run   *plugins.Run
	place string // the run with its generation, node, item and execution
	query string // without the item's key

	messages []agui.Message // of the thread
}

// begin records the worker's input and place.
func (pl *player) begin(ctx context.Context) error {
	in := &pl.run.Input
	run, err := pl.p.rt.Runs.Get(ctx, runtime.MustCaller(in.Project, in.User, runtime.RoleUser), in.RunID)
	if err != nil || run.Status != runtime.Running { // it has ended, and may be in its next generation
		return errDied
	}
	node := in.Node
	if pl.query = in.Query; node == mapNode {
		var key string
		key, pl.query, _ = strings.Cut(in.Query, "|")
		if err := pl.isMissing(ctx, &run, key); err != nil {
			return err
		}
		node += key
	}
	name, _ := message(pl.query)
	if strings.TrimPrefix(name, "m") != strings.TrimPrefix(in.RunID, "r") { // it may have no message of its own
		name += "." + short(in.RunID)
	}
	pl.place = fmt.Sprintf("%s.%s.%d/%s.%d", name, run.CreatedAt.Format("05.000"), run.Generation, node, in.Execution)
	if pl.messages, _, err = pl.run.Messages(ctx, 0); err != nil {
		return errDied
	}
	pl.w.ledger.asked(pl.place, in, pl.messages)
	if !pl.w.ledger.called(&run, node, in.Execution) {
		<-ctx.Done() // it would not end otherwise
	}
	return nil
}

// isMissing checks that an item of the map has not ended.
func (pl *player) isMissing(ctx context.Context, run *runtime.Run, key string) error {
	steps, err := pl.p.rt.Runs.Steps(ctx, runtime.MustCaller(run.Project, run.User, runtime.RoleUser), run.ID, mapNode, 0, 500)
	if err != nil {
		return errDied
	}
	for i := range steps.Rows {
		if st := &steps.Rows[i]; st.Generation == run.Generation && st.Item.Key == key && st.Status == runtime.Completed {
			pl.w.find(RuleItems, "run %s: the item %s of generation %d is executed, and its step %d has completed", short(run.ID), key, run.Generation, st.Number)
		}
	}
	return nil
}

func (pl *player) nodeAnswer() string { return "answer of " + pl.run.Input.Node }

// playAppended plays the messages that arrive during the worker's call.
func (pl *player) playAppended(ctx context.Context) error {
	for n := 1; ; n++ {
		if err := pl.pause(pl.place, "next", n); err != nil {
			return err
		}
		msgs, err := pl.run.Next(ctx)
		if err != nil || msgs == nil {
			return err
		}
		for _, m := range msgs {
			name, script := message(m.Text())
			pl.w.ledger.took(pl.run.Input.RunID, m.ID)
			if err := pl.play(ctx, pl.place+"/"+name, script); err != nil {
				return err
			}
		}
	}
}

// pause lets other goroutines run, and ends the worker if its process is dead or the history is over.
func (pl *player) pause(at ...any) error {
	pl.w.nap(at...)
	if pl.p.dead.Load() || pl.w.ctx.Err() != nil {
		return errDied
	}
	return nil
}

func (pl *player) play(ctx context.Context, place string, s Script) error {
	for i, op := range s {
		at := fmt.Sprintf("%s/%d%s", place, i+1, op.Name)
		if err := pl.pause(at); err != nil {
			return err
		}
		if err := pl.do(ctx, at, op); err != nil {
			return err
		}
	}
	return nil
}

func (pl *player) do(ctx context.Context, at string, op Op) error {
	run := pl.run
	switch op.Name {
	case "say", "open":
		w := run.Text()
		for _, word := range []string{"at ", at} {
			if _, err := io.WriteString(w, word); err != nil {
				return err
			}
			if err := pl.pause(at, word); err != nil {
				return err
			}
		}
		if op.Name == "say" {
			return w.Close()
		}
		return nil
	case "tell":
		w := run.Text()
		if _, err := io.WriteString(w, "at "+at+padding(pl.w.h.amount(at))); err != nil {
			return err
		}
		return w.Close()
	case "reason":
		w := run.Reason()
		if _, err := io.WriteString(w, thought+at); err != nil {
			return err
		}
		if err := pl.pause(at, "thought"); err != nil {
			return err
		}
		return w.Close()
	case "note", "idem", "gate", "front", "slow", "fetch":
		return pl.call(ctx, at, op.Name, map[string]any{"place": at})
	case "badnote", "badgate":
		out, err := run.CallTool(ctx, strings.TrimPrefix(op.Name, "bad"), map[string]any{"wrong": 1})
		if err == nil && out.Status != agui.StatusFailure {
			pl.w.find(RuleRecord, "%s: a call with wrong arguments gave %+v", at, out)
		}
		return err
	case "ask", "late":
		return pl.ask(ctx, at, op.Name == "late")
	case "do":
		return pl.doOnce(ctx, at, op)
	case "sub":
		out, err := run.CallAgent(ctx, helper, at+"|m: "+Script(op.Body).String())
		if err == nil && out.Answer != "helped "+at {
			pl.w.find(RuleRecord, "%s: the sub-agent's record is %q", at, out.Answer)
		}
		return err
	case "try":
		for i, part := range op.Body {
			if err := pl.play(ctx, fmt.Sprintf("%s/%d", at, i), Script{part}); err != nil && !errors.Is(err, plugins.ErrWaiting) {
				return err
			}
		}
	case "go":
		return pl.together(ctx, at, op.Body)
	case "think":
		return pl.think(ctx, at, op.Body)
	case "next":
		msgs, err := run.Next(ctx)
		for _, m := range msgs {
			pl.w.ledger.took(run.Input.RunID, m.ID)
		}
		return err
	case "state":
		return run.State(map[string]any{"k" + fmt.Sprint(len(at)%3): at})
	case "wait":
		return pl.rest(ctx, 30*time.Millisecond)
	case "sleep":
		return pl.sleep(ctx, at)
	case "await":
		began := time.Now()
		got, err := run.WaitFor(ctx, "e", plugins.Within(3*time.Second))
		if err == nil {
			pl.w.ledger.received(run.Input.RunID, at, string(got.Payload), began)
		}
		return err
	case "long":
		for n := range 5 {
			part := Op{Name: "do", Body: Script{{Name: "half"}, {Name: "say"}}}
			if err := pl.play(ctx, fmt.Sprintf("%s/%d", at, n), Script{part}); err != nil {
				return err
			}
		}
	case "half":
		return pl.rest(ctx, 500*time.Millisecond)
	case "stay":
		gate := pl.w.stays()
		return run.Do(ctx, "stay", nil, func(ctx context.Context) error {
			select {
			case <-gate:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	case "stall":
		pl.w.sleep(900 * time.Millisecond)
		return nil
	case "fail":
		if run.Input.Execution > 1 {
			return nil
		}
		return &plugins.Error{Code: "busy", Message: "try again", Retryable: true}
	case "die":
		return &plugins.Error{Code: "broken", Message: "it is broken"}
	case "panic":
		panic("at " + at)
	case "reuse":
		return pl.reuse(at)
	case "illegal":
		if err := run.Emit(agui.TextMessageContent{MessageID: "nobody's", Delta: "x"}); err == nil {
			pl.w.find(RuleSpan, "%s: a delta of no message was taken", at)
		}
		if err := run.Emit(agui.RunFinished{}); err == nil {
			pl.w.find(RuleSpan, "%s: a RUN_FINISHED of the worker's was taken", at)
		}
	}
	return nil
}

// together plays ops in parallel.
func (pl *player) together(ctx context.Context, at string, parts []Op) (err error) {
	ends := make(chan error, len(parts))
	for i, part := range parts {
		pl.run.Go(func() (err error) {
			defer func() { ends <- err }()
			return pl.play(pl.run.Branch(ctx, fmt.Sprint(i)), fmt.Sprintf("%s/%d", at, i), Script{part})
		})
	}
	for range parts {
		err = cmp.Or(err, <-ends)
	}
	return err
}

// rest waits unless ctx is done.
func (pl *player) rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sleep has the run parked. It must not go on too early.
func (pl *player) sleep(ctx context.Context, at string) error {
	const d = 3 * time.Second
	began := pl.w.ledger.sleeps(at)
	err := pl.run.Sleep(ctx, d)
	if slept := time.Since(began); err == nil && slept < d-5*time.Millisecond && !pl.w.h.Does(doClock) {
		pl.w.find(RuleWoken, "%s: a sleep of %s is over after %s", at, d, slept)
	}
	return err
}

func (pl *player) call(ctx context.Context, at, tool string, args any) error {
	out, err := pl.run.CallTool(ctx, tool, args)
	if err == nil {
		pl.check(at, tool, &out)
	}
	return err
}

// check checks that a call returned its own record.
func (pl *player) check(at, tool string, out *agui.ToolOutput) {
	want := "did " + at
	if tool == "front" {
		want = "client did " + short(out.ToolCallID)
	}
	if out.Status == agui.StatusSuccess && plain(out.ResultSummary) != plain(want) {
		pl.w.find(RuleRecord, "%s: the call's record is %q, want %q", at, out.ResultSummary, want)
	}
}

// think announces tool calls piece by piece, like a model, and makes them. With two calls it first retracts a text, and
// with three a text and a call.
func (pl *player) think(ctx context.Context, at string, tools []Op) error {
	var calls []plugins.ToolCall
	err := pl.run.Do(ctx, "think", &calls, func(ctx context.Context) (err error) {
		pl.w.ledger.does(pl.p.String() + " " + at)
		if n := len(tools); n > 1 {
			if _, err := pl.announce(ctx, at, tools[:n-2]); err != nil {
				return err
			}
			if err := pl.run.Retract(ctx); err != nil {
				return err
			}
		}
		ctx, end := pl.run.BeginModelCall(ctx)
		calls, err = pl.announce(ctx, at, tools)
		end(plugins.ModelCall{FinishReason: "tool_calls"}, err)
		return err
	})
	if err != nil {
		return err
	}
	pl.w.ledger.did(pl.p.String() + " " + at)
	if err := pl.pause(at, "calls"); err != nil {
		return err
	}
	outs, err := pl.run.CallTools(ctx, calls...)
	if refused, ok := errors.AsType[*plugins.Error](err); ok && refused.Code != "too_many_events" && !slices.Contains(tooMuch, refused.Code) {
		pl.w.find(RuleRecord, "%s: calls that were announced are refused: %v", at, refused)
	}
	if err != nil {
		return err
	}
	for i := range outs {
		if outs[i].ToolCallID != calls[i].ID {
			pl.w.find(RuleRecord, "%s: the call %s was announced and %s made", at, short(calls[i].ID), short(outs[i].ToolCallID))
		}
		pl.check(fmt.Sprintf("%s/%d", at, i), calls[i].Name, &outs[i])
	}
	return nil
}

// thought is the prefix of a worker's text before tool calls.
const thought = "thinking at "

func (pl *player) announce(ctx context.Context, at string, tools []Op) (calls []plugins.ToolCall, err error) {
	if _, err := io.WriteString(pl.run.Text(), thought+at); err != nil {
		return nil, err
	}
	open, rest := make([]*plugins.Announced, len(tools)), make([]string, len(tools))
	for i, op := range tools {
		if open[i], err = pl.run.Announce(ctx, op.Name); err != nil {
			return nil, err
		}
		args := map[string]any{"place": fmt.Sprintf("%s/%d", at, i)}
		calls = append(calls, plugins.ToolCall{Name: op.Name, Args: args, ID: open[i].ID})
		rest[i] = string(mustJSON(args))
	}
	for n := range 2 { // halves
		for i, a := range open {
			half := rest[i][:len(rest[i])/(2-n)]
			rest[i] = rest[i][len(half):]
			if _, err := a.WriteString(half); err != nil {
				return nil, err
			}
		}
		if err := pl.pause(at, "half", n); err != nil {
			return nil, err
		}
	}
	return calls, nil
}

func (pl *player) ask(ctx context.Context, at string, late bool) error {
	q := agui.Interrupt{Message: at}
	if late {
		soon := 1500 * time.Millisecond
		if pl.w.slow {
			soon = lateAfter(pl.w)
		}
		q.ExpiresAt = time.Now().Add(soon).UTC().Format(time.RFC3339Nano)
	}
	answer, err := pl.run.Ask(ctx, q)
	if err != nil {
		return err
	}
	if answer.Cancelled {
		if !late {
			pl.w.ledger.declined(at)
		}
		return nil
	}
	var to struct{ To string }
	if json.Unmarshal(answer.Payload, &to) != nil || to.To != at {
		pl.w.find(RuleAnswer, "%s: got the answer %s", at, answer.Payload)
	}
	return nil
}

func (pl *player) doOnce(ctx context.Context, at string, op Op) error {
	var did string
	err := pl.run.Do(ctx, fmt.Sprint("do", strings.Count(at, "do")), &did, func(ctx context.Context) error {
		pl.w.ledger.does(pl.p.String() + " " + at) // a replaced process may not know it yet
		did = "did " + at
		return pl.play(ctx, at, op.Body)
	})
	if err == nil && did != "did "+at {
		pl.w.find(RuleRecord, "%s: the record of Do is %q", at, did)
	}
	if err == nil {
		pl.w.ledger.did(pl.p.String() + " " + at)
	}
	return err
}

// lateAfter is when late questions expire, with a single caller.
func lateAfter(w *world) time.Duration {
	if w.several() {
		return 5 * time.Minute
	}
	return 20 * time.Second
}

// reuse writes a text under the id of the prompt's first assistant message.
func (pl *player) reuse(at string) error {
	i := slices.IndexFunc(pl.messages, func(m agui.Message) bool { return m.Role == agui.RoleAssistant })
	if i < 0 {
		return nil
	}
	id := pl.messages[i].ID
	if err := pl.run.Emit(agui.TextMessageStart{MessageID: id, Role: agui.RoleAssistant}); err != nil {
		return nil //nolint:nilerr // it may be refused
	}
	if err := pl.run.Emit(agui.TextMessageContent{MessageID: id, Delta: "again at " + at}); err != nil {
		return err
	}
	return pl.run.Emit(agui.TextMessageEnd{MessageID: id})
}

// tool does nothing when it is called.
type tool struct {
	p    *process
	info plugins.Info
}

func (t tool) Info() plugins.Info { return t.info }

func (t tool) Call(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	if t.p.dead.Load() {
		return agui.ToolOutput{}, errDied
	}
	var args struct{ Place string }
	_ = json.Unmarshal(call.Args, &args)
	t.p.w.ledger.executed(Execution{
		Process: t.p.String(), Run: call.RunID, Tool: t.info.Name, Call: call.ID, Place: args.Place, Args: string(call.Args),
	})
	t.p.w.nap("tool", args.Place)
	if t.info.Name == "slow" {
		t.p.w.sleep(400 * time.Millisecond)
	}
	if t.info.Name == "fetch" {
		return agui.ToolOutput{ResultSummary: "did " + args.Place + padding(t.p.w.h.amount(args.Place))}, nil
	}
	return agui.ToolOutput{ResultSummary: "did " + args.Place}, nil
}

// plugs returns the agents of a process and the tools that the history uses.
func (p *process) plugs() []plugins.Plugin {
	h := p.w.h
	var schema json.RawMessage
	if h.Uses("badnote", "badgate") > 0 { // which only wrong arguments break
		schema = json.RawMessage(`{"type":"object","properties":{"place":{"type":"string"}},"required":["place"]}`)
	}
	all := []plugins.Plugin{worker{p, alone}, worker{p, helper}}
	if p.place != 1 && h.Does(east) {
		all = append(all, worker{p, east})
	}
	if p.place > 0 && h.Does(west) {
		all = append(all, worker{p, west})
	}
	for _, info := range []plugins.Info{
		{Name: "note", Parameters: schema},
		{Name: "idem", Parameters: schema, Idempotent: true},
		{Name: "gate", Parameters: schema, Approval: true},
		{Name: "slow", Parameters: schema},
		{Name: "fetch", Parameters: schema},
	} {
		if h.Uses(info.Name, "bad"+info.Name) > 0 {
			all = append(all, tool{p, info})
		}
	}
	if !h.Does(flow) {
		return all
	}
	again := plugins.Retry{Retries: 1, Initial: 20 * time.Millisecond}
	return append(all, tool{p, plugins.Info{Name: "bare"}}, plugins.Workflow{Name: flow, Nodes: []plugins.Node{
		{ID: "a", Agent: alone, Input: "query", Retry: again},
		{ID: "b", Agent: alone, Input: "query", Retry: again},
		{ID: "t", Tool: "bare", Needs: []string{"a"}, When: `nodes.a.answer contains "answer"`},
		{ID: "c", Agent: alone, Input: "query", Needs: []string{"b", "t"}, When: `state.k0 != "never"`},
		{ID: mapNode, Agent: alone, Input: `item + "|" + query`, Retry: again, Map: &plugins.Map{Over: `["x", "y", "z"]`, Key: "item", Max: 2, OnError: plugins.CollectErrors}},
		{ID: "d", Tool: "bare", Needs: []string{"b"}, When: `nodes.b.answer == "never"`},
	}})
}
