package baton_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/plugins/llm/provider"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage/sqlitetest"
)

// heard is the mark of what a provider has answered.
const heard = "H3ARD"

// While a guard of the output is undecided, and once it has refused, nothing that a provider has answered is seen at any exit, in whichever
// member of whichever of its answers it was. Exits are the requests of neighbour_cases_test.go, monitors, the log, traces, metrics and
// the database but for the records of runs. Calls of tools are no output.
func TestGuard_WithholdsWhatProvidersAnswer(t *testing.T) {
	t.Parallel()
	w := &withheld{decide: make(chan struct{}), kinds: make(map[string]int)}
	provider := llmtest.New(w.script)
	t.Cleanup(provider.Close)
	agents := w.agents(t, provider.URL)
	database := "sqlite:" + sqlitetest.New(t)
	s, err := baton.New(baton.Config{
		Listen: "127.0.0.1:0", Database: database, Accounts: baton.AuthenticatorFunc(byHeader),
		Plugins: slices.Concat(builtin.Plugins(), agents, []plugins.Plugin{files("files.read")}), Log: slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Tuning: baton.Tuning{
			Limits:   baton.Limits{Runs: 2000, RunsPerProject: 2000, RunsPerUser: 2000, RequestsPerUser: -1, RequestsPerProject: -1, StreamsPerUser: -1, StreamsPerProject: -1},
			Timeouts: baton.Timeouts{Drain: time.Millisecond}, Attachments: baton.Attachments{Directory: t.TempDir()}, Tracer: w,
		},
	})
	if err == nil {
		err = s.Start(t.Context())
	}
	must(t, err)
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	e := &exits{site: site{t, s.URL()}, w: w, db: sqlOf(t, database)}
	monitors := e.monitor()

	started := make(map[string]things) // some of the runs, one of each kind
	for n := range w.variants {
		kind := w.variants[n].kind
		run := "v" + strconv.Itoa(n)
		conv := e.must(asking, "POST", "/api/v1/agent/runs", fmt.Sprintf(`{"agent":%q,"threadId":%q,"runId":%q,"content":"variant %d","overrides":{"model":"m%d"}}`, w.variants[n].agent, run, run, n, w.variants[n].model))
		started[kind] = things{"thread": run, "run": run, "conv": conv["conversationId"].(string)}
	}
	e.until("all runs wait for the guard or are over", func() bool {
		return w.waiting()+e.over() == len(w.variants)
	})
	for _, t := range started {
		e.look("undecided", t)
	}
	e.lookBehind("undecided")

	close(w.decide)
	e.until("all runs are over", func() bool { return e.over() == len(w.variants) })
	for kind, t := range started {
		e.look("refused", t)
		e.enter(kind, w.kinds[kind])
	}
	e.lookBehind("refused")
	e.check("monitors", monitors())
	if w.asked < len(w.variants)/3 || len(started) < 10 {
		t.Errorf("the guard was asked %d times in %d runs of %d kinds", w.asked, len(w.variants), len(started))
	}
}

// variant is an answer of a provider with the mark in one of its members.
type variant struct {
	kind   string // of the answer, with the protocol
	agent  string
	model  int // each has another, so that none is taken to be down, but for some failures
	what   string
	script llmtest.Script
	then   *llmtest.Script // the answer after the call of a tool
}

// withheld is a provider with such answers, the guard that refuses them, the log and the tracer.
type withheld struct {
	variants []variant
	kinds    map[string]int // the last variant of each kind
	decide   chan struct{}  // closed once the guard decides

	mu    sync.Mutex   // guards the fields below
	asked int          // how often the guard was asked
	text  bytes.Buffer // the log and the traces
}

var ordered = regexp.MustCompile(`variant (\d+)`)

func (w *withheld) script(r *llmtest.Request) llmtest.Script {
	is := ordered.FindSubmatch(r.Body)
	if is == nil {
		return llmtest.Script{Steps: []llmtest.Step{llmtest.Text(heard)}}
	}
	n, _ := strconv.Atoi(string(is[1]))
	v := &w.variants[n]
	if v.then != nil && bytes.Contains(r.Body, []byte("line of a file")) {
		return *v.then
	}
	return v.script
}

func (w *withheld) guard(ctx context.Context, _ plugins.Subject) (plugins.Verdict, error) {
	w.mu.Lock()
	w.asked++
	w.mu.Unlock()
	select {
	case <-w.decide:
	case <-ctx.Done():
	}
	return plugins.Verdict{Verdict: plugins.Refuse, Reason: "no"}, nil
}

func (w *withheld) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// Write receives the log.
func (w *withheld) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

// Begin implements runtime.Tracer.
func (w *withheld) Begin(ctx context.Context, op runtime.Op) (context.Context, func(runtime.End)) {
	_, _ = fmt.Fprintf(w, "%+v\n", op)
	return ctx, func(end runtime.End) { _, _ = fmt.Fprintf(w, "%+v %v\n", end, end.Err) }
}

func (w *withheld) Parent(context.Context) string { return "" }

func (w *withheld) Within(ctx context.Context, _ string) context.Context { return ctx }

// agents returns an agent of each protocol, and adds the variants of its answers.
func (w *withheld) agents(t *testing.T, url string) (list []plugins.Plugin) {
	t.Helper()
	for _, config := range []provider.Config{
		{Provider: "openai", API: "chat"}, {Provider: "openai", API: "responses"}, {Provider: "anthropic"}, {Provider: "google"}, {Provider: "ollama"},
	} {
		name := config.Provider + config.API
		config.Model, config.APIKey, config.Log = "m", "key", slog.New(slog.NewJSONHandler(w, nil))
		open := func(to string, client *http.Client) llm.Streamer {
			c := config
			if c.HTTPClient, c.BaseURL = client, to; c.Provider == "openai" {
				c.BaseURL += "/v1"
			}
			m, err := provider.Open(c)
			must(t, err)
			return m
		}
		for _, schema := range []string{"", `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`} {
			cfg := llm.Config{
				Name: name, Model: open(url, nil), Tools: []string{"files.*"}, Retries: -1, Log: config.Log,
				Guards: plugins.Guards{Output: []plugins.Guard{{Name: "g", Check: w.guard, Timeout: patience}}},
			}
			if schema != "" {
				cfg.Name, cfg.Output = name+"-schema", json.RawMessage(schema)
			}
			agent, err := llm.New(cfg)
			must(t, err)
			list = append(list, agent)
		}
		w.vary(t, name, open)
	}
	return list
}

// vary adds variants of a provider's answers.
func (w *withheld) vary(t *testing.T, name string, open func(url string, c *http.Client) llm.Streamer) {
	t.Helper()
	usage := &agui.TokenUsage{InputTokens: 3, OutputTokens: 2, TotalTokens: 5}
	text := llmtest.Script{Usage: usage, Steps: []llmtest.Step{llmtest.Reasoning("I think"), llmtest.Text("It is so")}}
	end := record(t, open, text)
	end.Body = strings.NewReplacer("It is so", heard, "I think", heard).Replace(end.Body)
	fault := func(status int) *llm.Error {
		return &llm.Error{Status: status, Code: "some_code", Message: "some sentence"}
	}
	scripts := map[string]llmtest.Script{
		"text":    text,
		"refusal": {Usage: usage, Steps: []llmtest.Step{llmtest.Text("It is"), llmtest.Refusal("I refuse")}},
		"cut":     {Usage: usage, Finish: "length", Steps: []llmtest.Step{llmtest.Text("It is so")}},
		"call":    {Usage: usage, Steps: []llmtest.Step{llmtest.Reasoning("I think"), llmtest.Text("It is so"), llmtest.Call(0, "call_1", "files_read"), llmtest.Arguments(0, `{"bytes":15}`)}},
		"fault":   {Steps: []llmtest.Step{llmtest.Reasoning("I think"), llmtest.Text("It is so"), llmtest.Fault(fault(http.StatusInternalServerError))}},
		"half":    {Steps: []llmtest.Step{llmtest.Call(0, heard, heard), llmtest.Arguments(0, `{"`+heard), llmtest.Fault(fault(http.StatusBadGateway))}},
	}
	for _, status := range []int{400, 401, 402, 403, 404, 413, 500} {
		scripts[strconv.Itoa(status)] = llmtest.Script{Fail: fault(status)}
	}
	add := func(kind, agent, what string, script llmtest.Script, model int) {
		w.kinds[kind] = len(w.variants)
		v := variant{kind: kind, agent: name + agent, model: model, what: what, script: script}
		if kind == "call" {
			v.then = &end
		}
		w.variants = append(w.variants, v)
	}
	headers := map[string]string{"X-Request-Id": heard, "Retry-After": heard, "Openai-Organization": heard, "Server": heard, "X-Ratelimit-Remaining-Requests": heard}
	for _, kind := range slices.Sorted(maps.Keys(scripts)) {
		golden := record(t, open, scripts[kind])
		values := append(stringsOf(golden.Body), "") // and in a member of another name
		for _, value := range values {
			if strings.Contains(value, "files_read") || strings.Contains(value, "bytes") { // the call of a tool is no output
				continue
			}
			v := golden
			v.Body, v.Header = marked(golden.Body, value), maps.Clone(golden.Header)
			if value == "" {
				maps.Copy(v.Header, headers)
			}
			add(kind, "", value, v, len(w.variants))
			if kind == "text" && value == "It is so" {
				add("schema", "-schema", value, v, len(w.variants))
				v.Body = strings.ReplaceAll(golden.Body, "It is so", `{\"n\":\"`+heard+`\",\"`+heard+`\":1}`)
				add("schema", "-schema", "a wrong answer", v, len(w.variants))
			}
		}
	}
	add("no JSON", "", "a page", llmtest.Script{Status: http.StatusBadGateway, Body: "<html>" + heard}, len(w.variants))
	add("no JSON", "", "a line", llmtest.Script{Body: "data: {\"" + heard + "\n\n{\"" + heard}, len(w.variants))
	for range 8 { // the model is down
		add("down", "", "all", llmtest.Script{Status: http.StatusInternalServerError, Body: `{"error":{"message":"` + heard + `"}}`}, 0)
	}
}

// record returns the answer of a simulated provider as it is.
func record(t *testing.T, open func(url string, c *http.Client) llm.Streamer, script llmtest.Script) llmtest.Script {
	t.Helper()
	server := llmtest.New(llmtest.Always(script))
	defer server.Close()
	var got recorder
	req := llm.Request{Messages: []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "go")}}
	req.Options.Tools = []llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "files_read"}}}
	_, _ = open(server.URL, &http.Client{Transport: &got}).Stream(t.Context(), req, func(llm.Piece) error { return nil })
	if len(got.all) == 0 {
		t.Fatal("the provider was not asked")
	}
	return got.all[0]
}

// recorder records answers.
type recorder struct{ all []llmtest.Script }

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(body))
	r.all = append(r.all, llmtest.Script{Status: res.StatusCode, Body: string(body), Header: map[string]string{"Content-Type": res.Header.Get("Content-Type")}})
	return res, err
}

// stringsOf returns the different strings in the JSON of an answer, other than the names of members.
func stringsOf(body string) (list []string) {
	eachJSON(body, func(v any) any {
		edit(v, func(s string) string {
			if s != "" && !slices.Contains(list, s) {
				list = append(list, s)
			}
			return s
		}, "")
		return v
	})
	return list
}

// marked returns an answer with the mark in the place of a value, or for "" in a further member of each object.
func marked(body, value string) string {
	return eachJSON(body, func(v any) any {
		extra := ""
		if value == "" {
			extra = heard
		}
		return edit(v, func(s string) string {
			if s == value && s != "" {
				return heard
			}
			return s
		}, extra)
	})
}

// eachJSON replaces the JSON in the lines of an answer.
func eachJSON(body string, f func(v any) any) string {
	var out strings.Builder
	for line := range strings.Lines(body) {
		head, text := "", line
		if rest, ok := strings.CutPrefix(line, "data: "); ok {
			head, text = "data: ", rest
		}
		var v any
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if d.Decode(&v) != nil {
			out.WriteString(line)
			continue
		}
		raw, _ := json.Marshal(f(v))
		out.WriteString(head + string(raw) + "\n")
	}
	return out.String()
}

// edit replaces the strings in a value, and adds a member to its objects unless extra is "".
func edit(v any, f func(string) string, extra string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case []any:
		for i := range v {
			v[i] = edit(v[i], f, extra)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			v[name] = edit(v[name], f, extra)
		}
		if _, arguments := v["bytes"]; extra != "" && !arguments && len(v) > 0 {
			v["more"+extra] = extra
		}
	}
	return v
}

// exits are the places at which a server shows something.
type exits struct {
	site
	w  *withheld
	db *sqlx.DB
}

// check fails if an exit has shown the mark.
func (e *exits) check(where, text string) {
	e.Helper()
	if at := strings.Index(text, heard); at >= 0 {
		e.Errorf("%s: …%s…", where, text[max(at-300, 0):min(at+100, len(text))])
	}
}

// over counts the runs that are over.
func (e *exits) over() (n int) {
	e.Helper()
	must(e, e.db.GetContext(e.Context(), &n, `SELECT count(*) FROM runs WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED')`))
	return n
}

// look makes all requests that read something, for a run and its thread.
func (e *exits) look(when string, about things) {
	e.Helper()
	t := absent("p1")
	maps.Copy(t, things{
		"user": "alice", "name": about["run"], "busy": about["run"], "waiting": about["run"], "called": about["run"], "caller": about["run"],
		"busythread": about["thread"], "busyconv": about["conv"], "asksconv": about["conv"], "callsconv": about["conv"],
	})
	maps.Copy(t, about)
	var calls struct{ Items []struct{ ID string } }
	if err := json.Unmarshal([]byte(e.request(asking, "GET", runsPath+t["run"]+"/model-calls", "").body), &calls); err == nil && len(calls.Items) > 0 {
		t["modelcall"] = calls.Items[0].ID
	}
	for op, list := range cases {
		for i := range list {
			a := list[i]
			reads := a.method == "GET" || strings.HasSuffix(a.path, "/connect") || strings.Contains(a.body, `Method":"GET"`) || strings.Contains(a.body, "agent/connect") ||
				strings.Contains(a.body, `"name":"get_`) || strings.Contains(a.body, `"name":"list_`)
			if !reads || a.endless || a.mine || strings.Contains(a.path, "follow=true") {
				continue
			}
			if a.frames != nil {
				if !strings.HasPrefix(a.path, "/api/v1/ws") {
					continue
				}
				a.frames = []string{`{"op":"subscribe","ref":1,"threadId":"{conv}","afterEventId":0}`, `{"op":"watch","ref":2}`, `{"op":"unsubscribe","ref":3,"threadId":"{conv}"}`, `{"op":"unwatch","ref":4}`}
			}
			if when == "undecided" && lasts(&a) {
				continue
			}
			e.check(when+": "+op+" "+a.path, e.answered(asking, &a, t, "").body)
		}
	}
	e.check(when+": search", e.request(asking, "GET", "/api/v1/threads?q="+heard[:3], "").body)
}

// lasts reports whether the answer to a request ends with the run.
func lasts(a *ask) bool {
	return strings.Contains(a.path, "/events") || strings.Contains(a.path, "/connect") || strings.Contains(a.body, "connect") || strings.Contains(a.path, "/agui/") || strings.Contains(a.body, "get_agent_run_events")
}

// lookBehind looks at the log, the traces, the metrics and the database.
func (e *exits) lookBehind(when string) {
	e.Helper()
	e.w.mu.Lock()
	e.check(when+": the log and the traces", e.w.text.String())
	e.w.mu.Unlock()
	e.check(when+": metrics", e.request(asking, "GET", "/metrics", "").body)
	var tables []string
	must(e, e.db.SelectContext(e.Context(), &tables, `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`))
	for _, table := range tables {
		if table != "memos" { // the records with which a run goes on after a crash
			e.check(when+": table "+table, e.rows(table))
		}
	}
}

// rows returns a table as text.
func (e *exits) rows(table string) string {
	e.Helper()
	rows, err := e.db.QueryxContext(e.Context(), `SELECT * FROM `+table)
	must(e, err)
	defer rows.Close()
	var all strings.Builder
	for rows.Next() {
		row, err := rows.SliceScan()
		must(e, err)
		for _, v := range row {
			if raw, ok := v.([]byte); ok {
				v = string(raw)
			}
			fmt.Fprintln(&all, v)
		}
	}
	must(e, rows.Err())
	return all.String()
}

// enter starts the run of a variant at each entrance, which shows it.
func (e *exits) enter(kind string, n int) {
	e.Helper()
	agent := e.w.variants[n].agent
	input := fmt.Sprintf(`{"threadId":"%s","runId":"{run}","messages":[{"id":"{run}","role":"user","content":"variant %d"}]}`, strings.ReplaceAll(kind, " ", "-")+"-{run}", n)
	say := func(run string) string { return strings.ReplaceAll(input, "{run}", run) }
	sse := []string{"Accept", "text/event-stream"}
	plain := fmt.Sprintf(`{"agent":%q,"content":"variant %d"}`, agent, n)
	for where, got := range map[string]said{
		"REST":                 e.request(asking, "POST", "/api/v1/agent/runs", plain, sse...),
		"AG-UI":                e.request(asking, "POST", "/api/v1/agui/"+agent, say("agui"+strconv.Itoa(n)), sse...),
		"CopilotKit":           e.request(asking, "POST", "/api/copilotkit/agent/"+agent+"/run", say("kit"+strconv.Itoa(n))),
		"CopilotKit, one path": e.request(asking, "POST", "/api/copilotkit", fmt.Sprintf(`{"method":"agent/run","params":{"agentId":%q},"body":%s}`, agent, say("one"+strconv.Itoa(n)))),
		"WebSocket":            e.converse(asking, "/api/v1/agui/"+agent+"/ws", []string{say("ws" + strconv.Itoa(n))}, nil),
		"MCP": e.request(asking, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"start_agent_run","arguments":`+plain+`}}`,
			"Accept", "application/json, text/event-stream"),
	} {
		if got.status >= 300 {
			e.Errorf("%s by %s: %d %s", kind, where, got.status, got.body)
		}
		e.check(kind+" by "+where, got.body)
	}
}

// monitor opens all monitors. The function that it returns ends them, and returns what they have shown.
func (e *exits) monitor() func() string {
	e.Helper()
	ctx, leave := context.WithCancel(e.Context())
	var all []*bytes.Buffer
	var reading sync.WaitGroup
	for op, list := range cases {
		for i := range list {
			if !list[i].endless {
				continue
			}
			req, err := http.NewRequestWithContext(ctx, list[i].method, e.url+strings.Replace(list[i].path, "agent=echo", "agent=openaichat", 1), http.NoBody)
			must(e, err)
			req.Header.Set("User", asking)
			res, err := http.DefaultClient.Do(req)
			if err != nil || res.StatusCode != http.StatusOK {
				e.Fatal(op, res, err)
			}
			b := new(bytes.Buffer)
			all = append(all, b)
			reading.Go(func() { // ends with ctx
				_, _ = io.Copy(b, res.Body)
				_ = res.Body.Close()
			})
		}
	}
	return func() string {
		e.Helper()
		leave()
		reading.Wait()
		var text strings.Builder
		for _, b := range all {
			if b.Len() == 0 {
				e.Error("a monitor has shown nothing")
			}
			text.Write(b.Bytes())
		}
		return text.String()
	}
}
