package e2e

import (
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/cmd/cmdtest"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/runtime/agui"
)

// TestKill_UsageIsTheProviders kills the server while agents call a model that counts its calls. Each answer that a run goes on with is in
// the usage exactly once. An answer that the server got and lost as it died is there once or not at all; the call is made again.
func TestKill_UsageIsTheProviders(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db database) {
		b := new(bill)
		provider := llmtest.New(b.answer)
		defer provider.Close()
		file := filepath.Join(t.TempDir(), "baton.yaml")
		if err := os.WriteFile(file, fmt.Appendf(nil, `
agents:
  worker: {provider: openai, model: m, api: chat, api_key: k, base_url: %q, tools: [sleep]}
prices: {currency: EUR, models: {m: {input: 2, output: 3}}}
`, provider.URL+"/v1"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := &server{t: t, db: db, addr: cmdtest.Address(), args: []string{"--config", file}}
		s.up()
		t.Cleanup(s.kill)
		last := s.used()
		unclear := 0
		for round := range count(100) {
			var runs []string
			for i := range 4 {
				status, out := s.call("POST", "/api/v1/agent/runs", map[string]any{"agent": "worker", "threadId": fmt.Sprint(round, "-", i), "content": "go"})
				if status != http.StatusAccepted {
					t.Fatal(status, out)
				}
				runs = append(runs, out["runId"].(string))
			}
			<-time.After(rand.N(150 * time.Millisecond)) // any moment will do
			s.kill()
			s.up()
			for _, run := range runs {
				out := s.ended(run)
				if out["status"] != "COMPLETED" {
					t.Fatalf("%v", out)
				}
				b.see(fmt.Sprint(out["outputSummary"]))
			}
			now := s.used()
			got := now.minus(last)
			last = now
			sure, lost := b.settle()
			if !got.isSumOf(sure, lost) {
				t.Errorf("round %d: %+v are counted, want %+v and some of %+v", round, got, sure, lost)
			}
			unclear += len(lost)
		}
		t.Logf("%+v are counted; %d calls were lost", last, unclear)
		s.addsUp(last)
	})
}

// tally is an amount of usage.
type tally struct{ calls, input, output int }

func (a tally) plus(b tally) tally {
	return tally{a.calls + b.calls, a.input + b.input, a.output + b.output}
}

func (a tally) minus(b tally) tally {
	return tally{a.calls - b.calls, a.input - b.input, a.output - b.output}
}

// isSumOf reports whether a is sure and some of the others.
func (a tally) isSumOf(sure tally, others []tally) bool {
	if len(others) == 0 {
		return a == sure
	}
	return a.isSumOf(sure, others[1:]) || a.isSumOf(sure.plus(others[0]), others[1:])
}

// bill is a provider's count of tokens.
type bill struct {
	mu    sync.Mutex
	calls int
	open  map[int]tally // calls whose answer no run has gone on with yet
	sure  tally         // the others since the last settle
}

var answerNumber = regexp.MustCompile(`answer-(\d+)`)

// answer answers a call with the call of a tool, and after three of them with a text, each with the number of the answer.
func (b *bill) answer(r *llmtest.Request) llmtest.Script {
	b.see(string(r.Body))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	n := b.calls
	used := tally{1, 1000 + n, 1 + n%7}
	if b.open == nil {
		b.open = make(map[int]tally)
	}
	b.open[n] = used
	name := fmt.Sprint("answer-", n)
	steps := []llmtest.Step{llmtest.Text(name)}
	if strings.Count(string(r.Body), `"role":"tool"`) < 3 {
		steps = []llmtest.Step{llmtest.Call(0, name, "sleep"), llmtest.Arguments(0, `{"ms":`), llmtest.Arguments(0, `10}`)}
	}
	return llmtest.Script{
		Steps: steps, Pace: 3 * time.Millisecond,
		Usage: &agui.TokenUsage{InputTokens: int64(used.input), OutputTokens: int64(used.output), TotalTokens: int64(used.input + used.output)},
	}
}

// see settles the answers that a text has, of a later request or of a result.
func (b *bill) see(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, match := range answerNumber.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(match[1])
		b.sure = b.sure.plus(b.open[n])
		delete(b.open, n)
	}
}

// settle returns the calls that runs have gone on with since the last settle, and those that were lost.
func (b *bill) settle() (sure tally, lost []tally) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, used := range b.open {
		lost = append(lost, used)
	}
	sure = b.sure
	b.open, b.sure = nil, tally{}
	return sure, lost
}

const anyDay = "since=2000-01-01&until=2100-01-01"

// used returns the usage of all calls.
func (s *server) used() tally {
	s.t.Helper()
	status, out := s.call("GET", "/api/projects/default/usage?"+anyDay, nil)
	if status != http.StatusOK {
		s.t.Fatal(status, out)
	}
	sum := tally{}
	for _, item := range out["items"].([]any) {
		u := item.(map[string]any)
		sum = sum.plus(tally{int(u["calls"].(float64)), int(u["inputTokens"].(float64)), int(u["outputTokens"].(float64))})
	}
	return sum
}

// addsUp checks that the rows by all columns have the same sum, as CSV.
func (s *server) addsUp(want tally) {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodGet, s.url("/api/projects/default/usage?by=user,agent,model,day&"+anyDay), nil)
	must(s.t, err)
	req.Header.Set("Accept", "text/csv")
	res, err := client.Do(req)
	must(s.t, err)
	defer func() { _ = res.Body.Close() }()
	rows, err := csv.NewReader(res.Body).ReadAll()
	if err != nil || len(rows) < 2 {
		s.t.Fatal(rows, err)
	}
	var got tally
	cost := 0.0
	for _, row := range rows[1:] {
		n := func(i int) int {
			n, err := strconv.Atoi(row[i])
			if err != nil {
				s.t.Error(err)
			}
			return n
		}
		got = got.plus(tally{n(5), n(7), n(9)})
		c, err := strconv.ParseFloat(row[11], 64)
		if cost += c; err != nil || row[1] != "local" || row[2] != "worker" || row[4] != "m" || row[12] != "EUR" {
			s.t.Error(row, err)
		}
	}
	if wantCost := float64(2*want.input+3*want.output) / 1e6; got != want || cost < wantCost-1e-9 || cost > wantCost+1e-9 {
		s.t.Errorf("the rows are %+v, %g, want %+v, %g", got, cost, want, wantCost)
	}
}
