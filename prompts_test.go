package baton_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jmoiron/sqlx"
	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/plugins/llm/provider"
	"github.com/batonrun/baton/plugins/tools"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/wire"
)

// asker is a server with an agent played by a fake model, and its database.
type asker struct {
	site
	server   *baton.Server
	provider *llmtest.Server
	db       *sqlx.DB
	file     string // of a SQLite database
}

// askers runs a test with an agent of a provider on both databases.
func askers(t *testing.T, kind string, change func(*llm.Config, *baton.Config), scripts func() func(*llmtest.Request) llmtest.Script, test func(a *asker)) {
	t.Helper()
	onBoth(t, func(t *testing.T, database string) {
		a := &asker{provider: llmtest.New(scripts())}
		t.Cleanup(a.provider.Close)
		a.file, _ = strings.CutPrefix(database, "sqlite:")
		if a.file == database {
			a.file = ""
		}
		base := a.provider.URL
		if kind == "openai" {
			base += "/v1"
		}
		var models []llms.Model
		for _, name := range []string{"m", "other"} {
			m, err := provider.Open(provider.Config{Provider: kind, Model: name, BaseURL: base, APIKey: promptKey})
			must(t, err)
			models = append(models, m)
		}
		lcfg := llm.Config{Name: "asker", Model: models[0], Fallbacks: models[1:], System: "Be brief.", Tools: []string{"files.*"}, Options: llms.CallOptions{Temperature: 0.5, MaxTokens: 100}}
		cfg := baton.Config{Listen: "127.0.0.1:0", Database: database, Accounts: baton.AuthenticatorFunc(byHeader), Tuning: baton.Tuning{Limits: baton.Limits{RequestsPerUser: -1, RequestsPerProject: -1}}}
		if change != nil {
			change(&lcfg, &cfg)
		}
		agent, err := llm.New(lcfg)
		must(t, err)
		cfg.Plugins = append(cfg.Plugins, agent, files("files.read"), files("files.fail"))
		a.server = open(t, cfg)
		a.db = sqlOf(t, database)
		a.site = site{t, a.server.URL()}
		test(a)
	})
}

const promptKey = "sk-s3cret-of-the-provider"

// files is a tool that returns so many bytes as its argument "bytes", 15 by default, or fails if its name says so.
type files string

func (f files) Info() plugins.Info {
	return plugins.Info{
		Name: string(f), Description: "Reads " + string(f), Idempotent: true,
		Parameters: json.RawMessage(`{"type":"object","properties":{"bytes":{"type":"integer"}}}`),
	}
}

func (f files) Call(_ context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	var args struct{ Bytes int }
	if err := json.Unmarshal(call.Args, &args); err != nil || f == "files.fail" {
		return agui.ToolOutput{}, &plugins.Error{Code: "no_file", Message: "There is no such file"}
	}
	return agui.ToolOutput{ResultSummary: strings.Repeat("line of a file\n", max(args.Bytes, 15)/15)}, nil
}

// ask starts a run on a thread and waits for its end.
func (a *asker) ask(thread, run, content string) {
	a.Helper()
	a.must(asking, "POST", "/api/v1/agent/runs", fmt.Sprintf(`{"agent":"asker","threadId":%q,"runId":%q,"content":%q}`, thread, run, content))
	var got wire.Run
	a.until("run "+run+" is over", func() bool { a.get(runsPath+run, &got); return got.Status.Final() })
	if got.Status != "COMPLETED" {
		a.Fatalf("run %s is %s: %+v", run, got.Status, got.Error)
	}
}

const asking = "p1/alice/admin"

const runsPath = "/api/projects/p1/agent-runs/"

// calls returns the calls of a run, each with its prompt and answer.
func (a *asker) calls(run string) (list []wire.WholeModelCall) {
	a.Helper()
	var page wire.Page[wire.ModelCall]
	a.get(runsPath+run+"/model-calls", &page)
	for _, c := range page.Items {
		var whole wire.WholeModelCall
		a.get(runsPath+run+"/model-calls/"+c.ID, &whole)
		a.seenByUser(run, whole)
		if diff := cmp.Diff(c, whole.ModelCall); diff != "" {
			a.Errorf("a call and its entry in the list differ: %s", diff)
		}
		list = append(list, whole)
	}
	return list
}

// seenByUser checks that a user sees the same call, and only the size of what operators wrote.
func (a *asker) seenByUser(run string, c wire.WholeModelCall) {
	a.Helper()
	var got wire.WholeModelCall
	answer := a.request("p1/alice/user", "GET", runsPath+run+"/model-calls/"+c.ID, "")
	if err := json.Unmarshal([]byte(answer.body), &got); err != nil || c.Sent == nil {
		if err != nil || got.Sent != nil {
			a.Errorf("a user gets %s, %v", answer.body, err)
		}
		return
	}
	want := *c.Sent
	want.Hidden = &runtime.HiddenPrompt{SystemBytes: len(want.System), Tools: len(want.Tools)}
	for _, tool := range want.Tools {
		want.Hidden.ToolBytes += len(tool.Description) + len(tool.Parameters)
	}
	want.System, want.Tools, want.Parameters = "", []plugins.PromptTool{}, json.RawMessage("{}")
	want.Changes = slices.DeleteFunc(slices.Clone(want.Changes), func(c plugins.PromptChange) bool { return c.Kind == plugins.PromptLeftOut })
	if c.Sent.Hidden != nil {
		a.Error("something is hidden from an admin")
	}
	c.Sent = &want
	if diff := cmp.Diff(c, got); diff != "" {
		a.Errorf("a user sees another call: %s", diff)
	}
}

func (s site) get(path string, into any) {
	s.Helper()
	got := s.request(asking, "GET", path, "")
	if got.status != http.StatusOK {
		s.Fatalf("GET %s: %d %s", path, got.status, got.body)
	}
	must(s, json.Unmarshal([]byte(got.body), into))
}

// sql runs a query for one number.
func (a *asker) sql(query string) (n int64) {
	a.Helper()
	if err := a.db.Get(&n, query); err != nil {
		a.Fatalf("%s: %v", query, err)
	}
	return n
}

// outline is a request without what providers name as they like: each line is a message, a call or a result.
type outline struct{ lines []string }

func (o *outline) say(role, text string) {
	if text != "" {
		o.lines = append(o.lines, role+": "+text)
	}
}

func (o *outline) call(name string, arguments string) {
	var v any
	_ = json.Unmarshal([]byte(arguments), &v)
	text, _ := json.Marshal(v)
	o.lines = append(o.lines, "calls "+strings.ReplaceAll(name, ".", "_")+string(text))
}

// outlineOf returns the outline of a prompt as it is kept.
func outlineOf(sent *wire.SentPrompt) (o outline, tools []string) {
	o.say("system", sent.System)
	for _, m := range sent.Messages {
		var text string
		_ = json.Unmarshal(m.Content, &text)
		o.say(string(m.Role), text)
		for _, c := range m.ToolCalls {
			o.call(c.Name, c.Arguments)
		}
	}
	for _, t := range sent.Tools {
		tools = append(tools, strings.ReplaceAll(t.Name, ".", "_"))
	}
	return o, tools
}

// outlineOfRequest returns the outline of a request that a provider has got.
func outlineOfRequest(t *testing.T, body []byte) (o outline, tools []string) {
	t.Helper()
	type block struct {
		Type, Text, Name string
		Input            json.RawMessage
		Content          json.RawMessage
	}
	var req struct {
		System   json.RawMessage
		Messages []struct {
			Role      string
			Content   json.RawMessage
			ToolCalls []struct {
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Tools []struct {
			Name     string
			Function struct{ Name string }
		}
	}
	must(t, json.Unmarshal(body, &req))
	var content func(role string, raw json.RawMessage)
	content = func(role string, raw json.RawMessage) {
		var text string
		if json.Unmarshal(raw, &text) == nil {
			o.say(role, text)
			return
		}
		var blocks []block
		_ = json.Unmarshal(raw, &blocks)
		var texts []string
		for _, b := range blocks {
			switch b.Type {
			case "text":
				texts = append(texts, b.Text)
			case "tool_use":
				o.say(role, strings.Join(texts, "\n\n"))
				texts = nil
				o.call(b.Name, string(b.Input))
			case "tool_result":
				content("tool", b.Content)
			}
		}
		o.say(role, strings.Join(texts, "\n\n"))
	}
	content("system", req.System)
	for _, m := range req.Messages {
		content(m.Role, m.Content)
		for _, c := range m.ToolCalls {
			o.call(c.Function.Name, c.Function.Arguments)
		}
	}
	for _, tool := range req.Tools {
		tools = append(tools, tool.Name+tool.Function.Name)
	}
	return o, tools
}

func toolCall(id, name, arguments string) []llmtest.Step {
	return []llmtest.Step{llmtest.Call(0, id, name), llmtest.Arguments(0, arguments)}
}

// TestPrompts_AreWhatProvidersGot compares each prompt with the request that the provider has received.
func TestPrompts_AreWhatProvidersGot(t *testing.T) {
	t.Parallel()
	used := &agui.TokenUsage{InputTokens: 10, OutputTokens: 5, TotalTokens: 15}
	for _, kind := range []string{"openai", "anthropic"} {
		t.Run(kind, func(t *testing.T) {
			scripts := func() func(*llmtest.Request) llmtest.Script {
				return llmtest.Each(
					llmtest.Script{Steps: append([]llmtest.Step{llmtest.Text("Let me "), llmtest.Text("look.")}, toolCall("c1", "files_read", `{"bytes":30}`)...), Usage: used},
					llmtest.Script{Steps: toolCall("c1", "files_fail", `{}`), Usage: used}, // an id twice
					llmtest.Script{Steps: []llmtest.Step{llmtest.Text("It has "), llmtest.Text("two lines.")}, Usage: used},
					llmtest.Script{Steps: []llmtest.Step{llmtest.Text("You're welcome.")}, Usage: used},
				)
			}
			askers(t, kind, nil, scripts, func(a *asker) {
				a.ask("main", "first", "What is in the file?")
				a.ask("main", "second", "Thanks!")
				calls := append(a.calls("first"), a.calls("second")...)
				requests := a.provider.Requests()
				if len(calls) != 4 || len(requests) != 4 {
					a.Fatalf("%d calls of %d requests are listed", len(calls), len(requests))
				}
				for i, c := range calls {
					want, wantTools := outlineOfRequest(a.T, requests[i].Body)
					got, gotTools := outlineOf(c.Sent)
					if diff := cmp.Diff(want.lines, got.lines) + cmp.Diff(wantTools, gotTools); diff != "" {
						a.Errorf("call %d: sent and kept: %s", i, diff)
					}
					if c.Status != agui.ModelFinished || c.Usage == nil || c.Usage.InputTokens != 10 || *c.Provider != kind || *c.Model != "m" || c.Step != 1 || c.FirstTokenMs == nil || c.DurationMs == nil {
						a.Errorf("call %d is %+v", i, c.ModelCall)
					}
					if string(c.Sent.Parameters) != `{"maxTokens":100,"temperature":0.5}` {
						a.Errorf("call %d has the parameters %s", i, c.Sent.Parameters)
					}
					for _, m := range c.Sent.Messages { // what the thread has is not stored twice
						if failed := strings.Contains(string(m.Content), "no_file"); (m.ID == "") != failed {
							a.Errorf("call %d: the message %s has the id %q", i, m.Content, m.ID)
						}
					}
				}
				if got := calls[0].Answered; got.Text != "Let me look." || len(got.ToolCalls) != 1 || got.ToolCalls[0].Name != "files.read" || got.ToolCalls[0].Arguments != `{"bytes":30}` {
					a.Errorf("the answer is kept as %+v", got)
				}
				if got := calls[2].Answered; got.Text != "It has two lines." || got.ToolCalls == nil || len(got.ToolCalls) != 0 || *got.FinishReason != "stop" {
					a.Errorf("the answer is kept as %+v", got)
				}
				if n := a.sql(`SELECT count(*) FROM prompt_pieces`); n != 2 { // instructions and tools, a failed result
					var bodies []string
					_ = a.db.Select(&bodies, `SELECT body FROM prompt_pieces`)
					a.Errorf("%d pieces are stored: %q", n, bodies)
				}
				a.secretless()
			})
		})
	}
}

// secretless checks that no key and no header is stored.
func (a *asker) secretless() {
	a.Helper()
	if a.file != "" {
		for _, suffix := range []string{"", "-wal"} {
			data, err := os.ReadFile(a.file + suffix)
			must(a, err)
			for _, word := range []string{promptKey, "Bearer", "x-api-key", "Authorization"} {
				if strings.Contains(string(data), word) {
					a.Errorf("the database has %q", word)
				}
			}
		}
		return
	}
	for _, query := range []string{
		`SELECT count(*) FROM prompt_pieces p WHERE p::text ~* 'sk-s3cret|bearer|x-api-key|authorization'`,
		`SELECT count(*) FROM prompts p WHERE p::text ~* 'sk-s3cret|bearer|x-api-key|authorization'`,
		`SELECT count(*) FROM memos p WHERE p::text ~* 'sk-s3cret|bearer|x-api-key|authorization'`,
	} {
		if a.sql(query) != 0 {
			a.Errorf("there is a row of %s", query)
		}
	}
}

// TestPrompts_TellWhatIsMissing checks the changes that a prompt lists, and the calls that failed before another model answered.
func TestPrompts_TellWhatIsMissing(t *testing.T) {
	t.Parallel()
	long := llmtest.Script{Steps: toolCall("c1", "files_read", `{"bytes":30000}`)}
	say := llmtest.Script{Steps: []llmtest.Step{llmtest.Text("done")}}
	busy := llmtest.Script{Fail: &llm.Error{Status: http.StatusServiceUnavailable, Message: "busy", Retryable: true}}
	askers(t, "openai", func(c *llm.Config, _ *baton.Config) {
		c.ResultTokens, c.History, c.Retries = 1000, 1500, 1
	}, func() func(*llmtest.Request) llmtest.Script {
		return llmtest.Each(long, say, busy, busy, say)
	}, func(a *asker) {
		a.ask("main", "first", "Read it.")
		first := a.calls("first")
		call := first[0].Answered.ToolCalls[0].ID
		if got := first[1].Sent.Changes; len(got) != 1 || got[0].Kind != plugins.PromptShortened || got[0].Of != call {
			a.Errorf("the changes of a shortened result are %+v", got)
		}
		a.ask("main", "second", strings.Repeat("And now something else. ", 200))
		second := a.calls("second")
		var statuses []string
		for _, c := range second {
			statuses = append(statuses, c.Status)
		}
		if want := []string{"failed", "failed", "finished"}; !slices.Equal(statuses, want) {
			a.Errorf("calls of a model, its retry and the fallback are %q", statuses)
		}
		for _, c := range second {
			if len(c.Sent.Changes) != 1 || c.Sent.Changes[0].Kind != plugins.PromptDropped || len(c.Sent.Messages) != 1 {
				a.Errorf("the changes of a prompt without earlier turns are %+v", c.Sent.Changes)
			}
			if c.Status == "failed" && (c.Error == nil || c.Answered != nil) {
				a.Errorf("a failed call is %+v", c)
			}
		}
		log := a.request(asking, "GET", "/api/v1/agent/runs/main/events", "").body
		want := fmt.Sprintf(`{"callId":%q,"shortened":0,"dropped":1,"summarised":false}`, second[0].ID)
		if strings.Count(log, `"context-compacted"`) != 1 || !strings.Contains(log, want) {
			a.Errorf("the log does not tell once of %s", want)
		}
	})
}

// always returns a model that says hello.
func always() func(*llmtest.Request) llmtest.Script {
	return llmtest.Always(llmtest.Script{Steps: []llmtest.Step{llmtest.Text("hello")}})
}

// TestPrompts_GoWithTheirRuns deletes runs, also by their age, a thread and a user, and looks for rows that stay.
func TestPrompts_GoWithTheirRuns(t *testing.T) {
	baton.TidyEvery(t, 10*time.Millisecond)
	monthly := func(_ *llm.Config, c *baton.Config) {
		c.Retention = &baton.RetentionPolicy{Retention: baton.Retention{Runs: 30 * 24 * time.Hour}}
	}
	askers(t, "openai", monthly, always, func(a *asker) {
		rows := func(table string) int64 { return a.sql(`SELECT count(*) FROM ` + table) }
		for _, run := range []string{"one", "two", "three"} {
			a.ask("main", run, "Who is "+run+"?")
		}
		a.ask("other", "four", "Who is four?")
		if p, u := rows("prompt_pieces"), rows("prompt_uses"); p != 2 || u != 4 {
			a.Fatalf("%d pieces with %d uses", p, u)
		}
		a.must(asking, "DELETE", runsPath+"one", "")
		if p, u := rows("prompt_pieces"), rows("prompt_uses"); p != 2 || u != 3 || rows("prompts") != 3 {
			a.Errorf("shared pieces: %d are left, with %d uses", p, u)
		}
		sent := a.calls("two")[0].Sent
		got, _ := outlineOf(sent)
		if want := []string{"system: Be brief.", "user: Who is two?"}; !slices.Equal(got.lines, want) || len(sent.Changes) != 1 || sent.Changes[0].Kind != "removed" {
			a.Errorf("a prompt with messages of a deleted run is %q, %+v", got.lines, sent.Changes)
		}
		if got := a.request("p1/bob/user", "GET", runsPath+"two/model-calls", ""); got.status != http.StatusNotFound {
			a.Errorf("a neighbour gets %d", got.status)
		}
		a.ask("old", "five", "Who is five?")
		month := "interval '31 days'"
		if a.file != "" {
			month = "31 * 86400000"
		}
		a.db.MustExec(`UPDATE runs SET created_at = created_at - ` + month + `, finished_at = finished_at - ` + month + ` WHERE id = 'five'`)
		a.until("the old run's pieces are gone", func() bool { return rows("prompt_pieces") == 2 && rows("prompt_uses") == 3 && rows("prompts") == 3 })
		a.must(asking, "DELETE", "/api/v1/threads/main", "")
		a.until("the thread's pieces are gone", func() bool { return rows("prompt_pieces") == 1 && rows("prompt_uses") == 1 && rows("prompts") == 1 })
		a.must(asking, "DELETE", "/api/projects/p1/users/alice/data", "")
		a.until("all is gone", func() bool { return rows("prompt_pieces")+rows("prompt_uses")+rows("prompts") == 0 })
	})
}

// until polls for a condition.
func (s site) until(what string, done func() bool) {
	s.Helper()
	for deadline := time.Now().Add(patience); !done(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("timeout: not yet %s", what)
		}
	}
}

// TestPrompts_OutliveEdits edits a message that a prompt refers to.
func TestPrompts_OutliveEdits(t *testing.T) {
	t.Parallel()
	askers(t, "openai", nil, always, func(a *asker) {
		start := func(run, content string) {
			a.request(asking, "POST", "/api/v1/agui/asker", fmt.Sprintf(`{"threadId":"main","runId":%q,"messages":[{"id":"m","role":"user","content":%q}],"state":{},"tools":[],"context":[],"forwardedProps":{}}`, run, content))
			a.reach(asking, run, "COMPLETED")
		}
		start("one", "the first words")
		start("two", "other words")
		for run, want := range map[string]string{"one": "user: the first words", "two": "user: other words"} {
			if got, _ := outlineOf(a.calls(run)[0].Sent); got.lines[len(got.lines)-1] != want {
				a.Errorf("the prompt of run %s is %q", run, got.lines)
			}
		}
		a.must(asking, "DELETE", "/api/v1/threads/main", "")
		a.until("all is gone", func() bool { return a.sql(`SELECT count(*) FROM prompt_pieces`) == 0 })
	})
}

// TestPrompts_CanBeOff checks that calls are listed without them.
func TestPrompts_CanBeOff(t *testing.T) {
	t.Parallel()
	askers(t, "openai", func(_ *llm.Config, c *baton.Config) { c.NoPrompts = true }, always, func(a *asker) {
		a.ask("main", "one", "Who?")
		calls := a.calls("one")
		if len(calls) != 1 || calls[0].Sent != nil || calls[0].Answered != nil || calls[0].Status != "finished" || calls[0].Usage == nil {
			a.Errorf("the calls are %+v", calls)
		}
		if n := a.sql(`SELECT count(*) FROM prompt_pieces`); n != 0 {
			a.Errorf("%d pieces are stored", n)
		}
	})
}

// TestPrompts_TakeFewBytes measures the size of the prompts in a thread of 50 turns.
func TestPrompts_TakeFewBytes(t *testing.T) {
	t.Parallel()
	const turns = 50
	measure := func(t *testing.T, question string, messages int, scripts func() func(*llmtest.Request) llmtest.Script) {
		askers(t, "openai", func(c *llm.Config, b *baton.Config) {
			c.System = strings.Repeat("You are an assistant who helps. ", 83) // 500 words
			c.Tools = append(c.Tools, "calculator")
			b.Plugins = append(b.Plugins, tools.Calculator{})
		}, scripts, func(a *asker) {
			for i := range turns {
				a.ask("main", fmt.Sprint("run-", i), fmt.Sprintf(question, i))
			}
			calls := a.calls(fmt.Sprint("run-", turns-1))
			if last := calls[len(calls)-1].Sent; len(last.Messages) != messages || len(last.Tools) != 3 {
				a.Errorf("the last prompt has %d messages and %d tools", len(last.Messages), len(last.Tools))
			}
			size := func(where string) int64 {
				if a.file != "" {
					return a.sql(`SELECT sum(pgsize - unused) FROM dbstat WHERE name ` + where)
				}
				// The rows, as pages count also what a table without rows has.
				return a.sql(`SELECT sum((xpath('/row/s/text()', query_to_xml(format('SELECT COALESCE(sum(pg_column_size(t) + 4), 0) AS s FROM ONLY %I t', relname), false, true, '')))[1]::text::bigint)::bigint FROM pg_stat_user_tables WHERE schemaname = 'baton' AND relname ` + where)
			}
			prompts, others := size(`LIKE '%prompt%'`), size(`NOT LIKE '%prompt%'`)
			a.Logf("prompts take %d bytes beside %d: %.1f %%", prompts, others, 100*float64(prompts)/float64(others))
			if prompts*20 > others {
				a.Errorf("prompts take %d bytes beside %d", prompts, others)
			}
		})
	}
	t.Run("long turns", func(t *testing.T) {
		measure(t, "Question %d: what does the file say about this?", 4*turns-1, func() func(*llmtest.Request) llmtest.Script {
			turn := 0
			return func(*llmtest.Request) llmtest.Script {
				if turn++; turn%2 == 1 {
					return llmtest.Script{Steps: append([]llmtest.Step{llmtest.Text("I look.")}, toolCall(fmt.Sprint("c", turn), "files_read", `{"bytes":1000}`)...)}
				}
				return llmtest.Script{Steps: llmtest.Tokens(250, "word ")}
			}
		})
	})
	t.Run("short turns", func(t *testing.T) {
		measure(t, "Do you still remember what I told you about question %d?", 2*turns-1, func() func(*llmtest.Request) llmtest.Script {
			return llmtest.Always(llmtest.Script{Steps: llmtest.Tokens(12, "word ")})
		})
	})
}
