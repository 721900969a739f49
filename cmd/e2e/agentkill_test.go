package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins/llm/llmtest"
)

// journey is a model that gives three answers with tool calls and one without. The calls of each round have their own numbers. A
// leg records the notes at the time of a request, and so the calls made before it.
type journey struct {
	mu    sync.Mutex
	asked []leg
}

type leg struct {
	prompt
	round int
	noted []string
}

func (j *journey) answer(w func() []string) func(prompt) llmtest.Script {
	return func(p prompt) llmtest.Script {
		round := 0
		for _, m := range p.Messages {
			if text, ok := m.Content.(string); ok && m.Role == "user" && strings.HasPrefix(text, "round ") {
				round, _ = strconv.Atoi(text[len("round "):])
			}
		}
		j.mu.Lock()
		j.asked = append(j.asked, leg{p, round, w()})
		j.mu.Unlock()
		base := round*10 + 1
		say := func(i int) []llmtest.Step {
			return llmtest.Tokens(5, fmt.Sprintf("r%d-%d ", round, i))
		}
		var steps []llmtest.Step
		switch p.turn() {
		case 0:
			a, b := note(0, "note", base), note(2, "note", base+1)
			sum := []llmtest.Step{llmtest.Call(1, "sum", "calculator"), llmtest.Arguments(1, `{"expression":`), llmtest.Arguments(1, `"6*7"}`)}
			steps = say(0)
			for i := range a { // the pieces of three calls alternate
				steps = append(steps, a[i], sum[i], b[i])
			}
		case 1:
			steps = append(say(1), note(0, "note", base+2)...)
		case 2:
			steps = slices.Concat(say(2), note(0, "note", base+3), note(1, "note", base+4))
		default:
			steps = say(3)
		}
		return llmtest.Script{Steps: steps, Pace: 3 * time.Millisecond}
	}
}

// kill -9 between and inside model and tool calls: finished calls are not repeated, prompts are valid and contain nothing twice, and
// the log has neither gap nor repeat.
func TestKill_AgentDoesNotRepeatCalls(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db database) {
		var j journey
		var w *world
		noted := func() []string { return w.noted() }
		w = declare(t, db, `
agents:
  worker: {$PROVIDER, model: m, tools: [calculator, tools.*]}
mcp:
  tools: {$TOOLS}
`, j.answer(noted))
		for round := range count(60) {
			j.round(t, w, round)
			if t.Failed() {
				t.Fatalf("in round %d", round)
			}
		}
	})
}

func (j *journey) round(t *testing.T, w *world, round int) {
	j.mu.Lock()
	from := len(j.asked)
	j.mu.Unlock()
	thread := fmt.Sprint("journey", round/3) // prompts of a thread's later turns contain the earlier ones
	run := w.ask("worker", thread, fmt.Sprint("round ", round))
	v := w.watch(thread)
	kills := 1 + rand.IntN(2) // three crashes of one run are a crash loop
	for range kills {
		pause(time.Duration(rand.IntN(250)) * time.Millisecond)
		w.kill()
		w.up()
	}
	if row := w.ended(run); row["status"] != "COMPLETED" {
		t.Fatalf("the run is %v: %v", row["status"], row["error"])
	}
	frames := v.wait(t)
	checkLog(t, thread, frames)
	sameFrames(t, thread+" read again", frames, w.all(thread))
	w.checkRun(t, run, frames)

	j.mu.Lock()
	asked := slices.Clone(j.asked[from:])
	j.mu.Unlock()
	if len(asked) < 4 || len(asked) > 4+kills {
		t.Errorf("the model got %d requests for 4 answers and %d crashes", len(asked), kills)
	}
	last := 0
	for _, leg := range asked {
		leg.check(t, round, last)
		last = leg.turn()
	}
	calls := map[string]int{}
	for _, n := range w.noted() {
		calls[n]++
	}
	for n, times := range calls {
		if times > 1 {
			t.Errorf("note %s was made %d times", n, times)
		}
	}
	for n := range 5 { // a call with a successful result was made
		text := fmt.Sprint("noted ", round*10+1+n)
		if asked[len(asked)-1].said("tool", text) == 1 && calls[text[len("noted "):]] != 1 {
			t.Errorf("%q has a result and was not made", text)
		}
	}
}

// check fails unless the prompt is valid, follows the previous one, and contains each answer of the round once.
func (l leg) check(t *testing.T, round, last int) {
	t.Helper()
	if err := l.err(); err != nil {
		t.Errorf("round %d: the prompt for answer %d is not valid: %v", round, l.turn(), err)
	}
	if l.turn() < last {
		t.Errorf("round %d: answer %d is requested after answer %d", round, l.turn(), last)
	}
	for i := range l.turn() {
		if n := l.said("assistant", fmt.Sprintf("r%d-%d ", round, i)); n != 1 {
			t.Errorf("round %d: the prompt for answer %d contains answer %d %d times", round, l.turn(), i, n)
		}
	}
	if n := l.said("assistant", fmt.Sprintf("r%d-%d ", round, l.turn())); n != 0 {
		t.Errorf("round %d: the cut part of answer %d is in the prompt that requests it again", round, l.turn())
	}
	for earlier := round / 3 * 3; earlier < round; earlier++ {
		for i := range 4 {
			if l.said("assistant", fmt.Sprintf("r%d-%d ", earlier, i)) == 0 {
				t.Errorf("round %d: the prompt lacks answer %d of round %d", round, i, earlier)
			}
		}
	}
	for _, n := range l.noted {
		v, _ := strconv.Atoi(n) // journey's own id
		if at := v - round*10 - 1; at >= made(l.turn()) {
			t.Errorf("round %d: note %d was made before answer %d was", round, at, l.turn())
		}
	}
}

// made returns the number of notes before the request for an answer.
func made(turn int) int { return []int{0, 2, 3, 5}[min(turn, 3)] }
