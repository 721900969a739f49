package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// judges are the guards of agents that note the texts they have judged. A text that an agent gets without that is an error.
type judges struct {
	t       *testing.T
	refuses string        // in an input that is refused; guarded by mu
	waits   chan struct{} // a worker waits for a message
	goOn    chan struct{} // it is there

	mu     sync.Mutex
	judged map[string][]string // by agent
}

// took returns the texts that an agent's guards have judged since the last call.
func (j *judges) took(agent string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	list := j.judged[agent]
	j.judged[agent] = nil
	return list
}

// agent returns an agent with guards that follows its query: it lets b do it ("call b"), or waits for a message, asks a model before and
// after that.
func (j *judges) agent(name string) plugins.Agent {
	passed := make(map[string]map[string]bool) // texts by thread; guarded by j.mu
	guard := plugins.Guard{Name: "g", Check: func(_ context.Context, s plugins.Subject) (plugins.Verdict, error) {
		j.mu.Lock()
		defer j.mu.Unlock()
		for text := range strings.SplitSeq(s.Input, "\n\n") {
			j.judged[name] = append(j.judged[name], text)
		}
		if j.refuses != "" && strings.Contains(s.Input, j.refuses) {
			return plugins.Verdict{Verdict: plugins.Refuse}, nil
		}
		return plugins.Verdict{Verdict: plugins.Allow}, nil
	}}
	get := func(run *plugins.Run, list []agui.Message) {
		j.mu.Lock()
		defer j.mu.Unlock()
		seen := passed[run.Input.ThreadID]
		if seen == nil {
			seen = make(map[string]bool)
			passed[run.Input.ThreadID] = seen
		}
		for _, text := range j.judged[name] {
			seen[text] = true
		}
		for i := range list {
			if text := list[i].Text(); list[i].Role == agui.RoleUser && !seen[text] {
				j.t.Errorf("%s gets %q, which its guards have not judged", name, text)
			}
		}
	}
	return guarded{agent{name, func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		list, _, err := run.Messages(ctx, 0)
		get(run, list)
		switch query := run.Input.Query; {
		case err != nil:
			return agui.WorkerOutput{}, err
		case query == "call b":
			return run.CallAgent(ctx, "b", "wait")
		case query != "wait", name == "a" && run.Input.Workflow != "":
			return agui.WorkerOutput{Answer: "done"}, nil
		}
		ask := func(context.Context) error {
			_, end := run.BeginModelCall(ctx)
			end(plugins.ModelCall{}, nil)
			return nil
		}
		if err := run.Do(ctx, "before", nil, ask); err != nil {
			return agui.WorkerOutput{}, err
		}
		select {
		case j.waits <- struct{}{}:
			select {
			case <-j.goOn:
			case <-ctx.Done():
				return agui.WorkerOutput{}, context.Cause(ctx)
			}
		case <-ctx.Done():
			return agui.WorkerOutput{}, context.Cause(ctx)
		case <-j.goOn: // after a rerun nobody waits
		}
		list, err = run.Next(ctx)
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		get(run, list)
		return agui.WorkerOutput{Answer: "done"}, run.Do(ctx, "after", nil, ask)
	}}, plugins.Guards{Input: []plugins.Guard{guard}}}
}

// The guards of an agent judge each message that it gets, once: also one that another agent has consumed before the agent's last answer, after a
// crash and a rerun.
func TestGuard_JudgesEachMessage(t *testing.T) {
	onBoth(t, func(t *testing.T, path string) {
		j := &judges{t: t, waits: make(chan struct{}), goOn: make(chan struct{}), judged: make(map[string][]string)}
		b := openAt(t, path, runtime.Config{}, j.agent("a"), j.agent("b"), plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
			{ID: "head", Agent: "a"}, {ID: "two", Agent: "b", Needs: []string{"head"}, Input: "query"},
		}})
		defer b.clear()
		want := func(what, agent string, want ...string) {
			t.Helper()
			if got := j.took(agent); !slices.Equal(got, want) {
				t.Errorf("%s: the guards of %s judge %q, want %q", what, agent, got, want)
			}
		}
		during := func(s runtime.Started, append string, crash bool) {
			t.Helper()
			<-j.waits
			b.appended(s.RunID, append)
			if crash {
				b.crash()
				<-j.waits
			}
			j.goOn <- struct{}{}
			b.wait(s.RunID, runtime.Completed)
		}
		during(b.start("main", "a", "call b"), "one", false)
		want("a sub-agent", "a", "call b")
		want("a sub-agent", "b", "wait", "one")
		b.wait(b.start("main", "a", "hello").RunID, runtime.Completed)
		want("after a sub-agent", "a", "one", "hello")

		s := b.startWorkflow("main", "flow", "wait")
		during(s, "two", true)
		want("a workflow", "a", "wait")
		want("a workflow", "b", "call b", "one", "hello", "wait", "two")
		s = b.start("main", "a", "hi")
		b.wait(s.RunID, runtime.Completed)
		want("after a workflow", "a", "two", "hi")
		b.wait(b.start("main", "b", "hey").RunID, runtime.Completed)
		want("after another agent", "b", "hi", "hey")

		s = b.start("origin", "a", "wait")
		during(s, "three", false)
		want("before a rerun", "a", "wait", "three")
		var calls []string
		for _, r := range b.log("origin") {
			if e, ok := r.Event.(agui.Custom); ok {
				if c, ok := agui.ModelCallOf(e); ok && c.Status == agui.ModelStarted {
					calls = append(calls, c.ID)
				}
			}
		}
		rerun := func(thread string) runtime.Started {
			t.Helper()
			req, err := b.Rerun(t.Context(), local, local, s.RunID, runtime.RerunRequest{FromCall: calls[1]})
			must(t, err)
			req.ThreadID = thread
			s := b.request(req)
			return s
		}
		again := rerun("whole")
		j.goOn <- struct{}{}
		b.wait(again.RunID, runtime.Completed)
		want("a rerun", "a", "wait", "three", "three")
		b.wait(b.start("whole", "a", "bye").RunID, runtime.Completed)
		want("after a rerun", "a", "bye")

		j.mu.Lock()
		j.refuses = "wait"
		j.mu.Unlock()
		b.wait(rerun("cut").RunID, runtime.Failed)
		want("a rerun that ends early", "a", "wait", "three")
		b.wait(b.start("cut", "a", "bye").RunID, runtime.Completed)
		want("after a rerun that ended early", "a", "bye")
	})
}

// judging returns an agent whose input judge judges. rule tells the guard from others.
func judging(name, rule string, judge func(input string) plugins.Verdict) plugins.Agent {
	check := func(_ context.Context, s plugins.Subject) (plugins.Verdict, error) { return judge(s.Input), nil }
	done := answering(name, func(string) string { return "done" })
	return guarded{done, plugins.Guards{Input: []plugins.Guard{{Name: "g", Rule: rule, Check: check}}}}
}

// A guard's word holds for a message as it was, at its place, and for these guards.
func TestGuard_JudgesWhatHasChanged(t *testing.T) {
	t.Parallel()
	var seen []string
	sees := func(input string) plugins.Verdict {
		seen = append(seen, input)
		return plugins.Verdict{Verdict: plugins.Allow}
	}
	b, thread := open(t, runtime.Config{}, judging("a", "one", sees), hello), "main"
	judged := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(seen, want) {
			t.Errorf("%s: the guards judge %q, want %q", what, seen, want)
		}
		seen = nil
	}
	send := func(agent string, msgs ...agui.Message) runtime.Started {
		t.Helper()
		s := b.request(runtime.StartRequest{Agent: agent, ThreadID: thread, Messages: msgs, Edits: true})
		b.wait(s.RunID, runtime.Completed)
		return s
	}
	m := func(id, text, metadata string) agui.Message {
		return agui.Message{ID: id, Role: agui.RoleUser, Content: text, Metadata: []byte(metadata)}
	}
	remove := func(s runtime.Started) {
		t.Helper()
		must(t, b.Delete(t.Context(), local, s.RunID))
	}
	send("a", m("m", "one", `{}`))
	send("a", m("m", "two", `{}`))
	judged("an edit", "one", "two")
	send("a", m("m", "one", `{"note":"other"}`))
	judged("the first text with other metadata", "one", "note\nother")

	thread = "reused"
	first := send("hello", m("x", "reused", `{}`))
	send("a")
	judged("another agent's message", "reused")
	remove(first)
	send("hello", m("y", "between", `{}`))
	send("a", m("x", "reused", `{}`))
	judged("an id that was deleted", "between\n\nreused")
	send("a")
	judged("nothing new")
	must(t, b.Replace(t.Context(), registry(t, judging("a", "two", sees), hello)))
	send("a")
	judged("other guards", "between\n\nreused")

	var many []agui.Message
	for i := range plugins.MaxMessages {
		many = append(many, m(fmt.Sprint("many", i), "word", `{}`))
	}
	thread = "long"
	send("hello", m("old", "old", `{}`))
	hides := send("hello", many...)
	send("a", m("new", "new", `{}`))
	seen = nil
	remove(hides)
	send("a", m("next", "next", `{}`))
	judged("a message that others had pushed out of sight", "old\n\nnext")
}

// A rewrite replaces the content of messages. It neither takes in names and metadata, nor can it replace them.
func TestGuard_RewritesContentAlone(t *testing.T) {
	message := agui.Message{Role: agui.RoleUser, Content: "bad", Name: "Ann", Metadata: []byte(`{"note":"cheap"}`)}
	for reads, want := range map[string]string{"bad": "user good; assistant done", "cheap": ""} {
		var asked []string
		b := open(t, runtime.Config{}, judging("clerk", "", func(input string) plugins.Verdict {
			asked = append(asked, input)
			if !strings.Contains(input, reads) {
				return plugins.Verdict{Verdict: plugins.Allow}
			}
			return plugins.Verdict{Verdict: plugins.Rewrite, Text: strings.ReplaceAll(input, reads, "good")}
		}), reader)
		s := b.request(runtime.StartRequest{Agent: "clerk", ThreadID: "main", Messages: []agui.Message{message}})
		b.wait(s.RunID, runtime.Completed, runtime.Failed)
		if want := []string{"bad", "Ann\nnote\ncheap"}; !slices.Equal(asked, want) {
			t.Errorf("the guard is asked about %q, want %q", asked, want)
		}
		var prompt []string
		for _, m := range b.asked("main") {
			prompt = append(prompt, string(m.Role)+" "+m.Text())
		}
		if got := strings.Join(prompt[:len(prompt)-1], "; "); got != want {
			t.Errorf("%s is rewritten: the next prompt is %q, want %q", reads, got, want)
		}
		b.clear()
	}
}

// A message that a guard has rewritten for one agent is still a user's message for the guards of another one, and judged once by its own.
func TestGuard_JudgesRewrittenMessages(t *testing.T) {
	seen := make(map[string][]string)
	rewrites := func(name string) plugins.Agent {
		return judging(name, "", func(input string) plugins.Verdict {
			seen[name] = append(seen[name], input)
			return plugins.Verdict{Verdict: plugins.Rewrite, Text: strings.ReplaceAll(input, "bad", "by "+name)}
		})
	}
	b := open(t, runtime.Config{}, rewrites("a"), rewrites("b"))
	for _, run := range [][2]string{{"a", "bad"}, {"a", "fine"}, {"b", "bad"}, {"a", "well"}} {
		b.wait(b.start("main", run[0], run[1]).RunID, runtime.Completed)
	}
	if got, want := seen["a"], []string{"bad", "fine", "by a\n\nfine\n\nby b\n\nwell"}; !slices.Equal(got, want) {
		t.Errorf("a judges %q, want %q", got, want)
	}
	if got, want := seen["b"], []string{"by a\n\nfine\n\nbad"}; !slices.Equal(got, want) {
		t.Errorf("b judges %q, want %q", got, want)
	}
}
