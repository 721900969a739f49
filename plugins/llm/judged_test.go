package llm_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/plugins/llm/provider"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Whatever a client sends, in whichever member of a request, a guard of the input has judged it before a model gets it. The test fills the
// requests by their types, so that it covers a new member, too.
func TestGuard_JudgesAllThatIsRendered(t *testing.T) {
	for name, config := range map[string]provider.Config{
		"chat": {Provider: "openai", API: "chat"}, "responses": {Provider: "openai", API: "responses"},
		"anthropic": {Provider: "anthropic"}, "google": {Provider: "google"}, "ollama": {Provider: "ollama"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &marked{places: make(map[string]string)}
			server := llmtest.New(m.script)
			t.Cleanup(server.Close)
			transport := &http.Transport{}
			t.Cleanup(transport.CloseIdleConnections)
			config.Model, config.APIKey, config.BaseURL = "m", "key", server.URL
			if config.Provider == "openai" {
				config.BaseURL += "/v1"
			}
			config.HTTPClient, config.Log = &http.Client{Transport: transport}, slog.New(slog.DiscardHandler)
			model, err := provider.Open(config)
			if err != nil {
				t.Fatal(err)
			}
			m.play(t, newAgent(t, llm.Config{Model: model, ShowState: true, Items: anyItem{}, Guards: m.guards()}))
			var sent []string
			for _, r := range server.Requests() {
				sent = append(sent, strings.Join(decoded(r.Body), "\n"))
			}
			m.check(t, sent,
				"Message.Content", "Message.ToolCalls.Name", "Message.ToolCalls.Arguments", "Message.Error", "Part.Text", "Part.Source.Value",
				"Tools.Name", "Tools.Description", "Tools.Parameters", "Context.Description", "Context.Value", "ContextItemIDs", "State",
				"Resume.Payload", "Attachment", "Attachment.Filename", "Append.Content")
		})
	}
}

// An agent that is no model gets nothing that was not judged either, but for the ids of messages, of the thread and of the run.
func TestGuard_JudgesAllThatAgentsGet(t *testing.T) {
	t.Parallel()
	m := &marked{places: make(map[string]string)}
	var got []string
	get := func(v any) {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Error(err)
		}
		got = append(got, strings.Join(decoded(raw), "\n"))
	}
	greedy := function{plugins.Info{Name: "assistant", Guards: m.guards()}, func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		in := run.Input
		in.Overrides = nil // they are operators'
		get(in)
		messages, _, err := run.Messages(ctx, 0)
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		get(messages)
		for range len(m.answers) {
			out, err := run.CallTool(ctx, m.tool, nil)
			if err != nil {
				return agui.WorkerOutput{}, err
			}
			get(out)
		}
		answer, err := run.Ask(ctx, agui.Interrupt{Message: "And?"})
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		get(answer)
		more, err := run.Next(ctx)
		get(more)
		return agui.WorkerOutput{Answer: "done"}, err
	}}
	m.play(t, greedy)
	m.check(t, got, "Message.Metadata", "Message.Name", "ForwardedProps", "Tools.Metadata", "Resume.Payload", "Append.Content")
}

// function is an agent made of a function.
type function struct {
	info plugins.Info
	run  func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error)
}

func (f function) Info() plugins.Info { return f.info }

func (f function) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	return f.run(ctx, run)
}

// anyItem has every item, with a text of the operator.
type anyItem struct{}

func (anyItem) Item(context.Context, *plugins.Input, string) (string, error) {
	return "of the operator", nil
}

// marked fills requests with marks, each of which stands in one place only.
type marked struct {
	tool    string         // the name of the client's tool
	answers []agui.Message // of the client's tool; the last one is given as a resume

	mu     sync.Mutex        // guards the fields below
	places map[string]string // of marks
	judged strings.Builder   // what the guard was asked about
}

// script calls the client's tool until it has all answers.
func (m *marked) script(r *llmtest.Request) llmtest.Script {
	if made := strings.Count(string(r.Body), "made-by-the-model"); made < len(m.answers) {
		return llmtest.Script{Steps: []llmtest.Step{llmtest.Call(0, fmt.Sprint("c", made), m.tool), llmtest.Arguments(0, `{"a":"made-by-the-model"}`)}}
	}
	return llmtest.Script{Steps: []llmtest.Step{llmtest.Text("done")}}
}

func (m *marked) guards() plugins.Guards {
	return plugins.Guards{Input: []plugins.Guard{{Name: "g", Check: func(_ context.Context, s plugins.Subject) (plugins.Verdict, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		fmt.Fprintln(&m.judged, s.Input)
		return plugins.Verdict{Verdict: plugins.Allow}, nil
	}}}}
}

// play runs an agent on a request, on answers, on an appended message, and again on what is then the thread.
func (m *marked) play(t *testing.T, a plugins.Agent) {
	t.Helper()
	b := open(t, a)
	var req runtime.StartRequest
	m.fill(reflect.ValueOf(&req).Elem(), "", []string{
		"Agent", "WorkflowID", "Tool", "Messages", "Multitask", "RewindTo", "Edits", "BodyHash", "Idempotency", "Resume", "ParentRunID",
		"Overrides", // are operators'
	})
	req.Agent, m.tool = "assistant", req.Tools[0].Name
	for _, role := range []agui.Role{agui.RoleSystem, agui.RoleDeveloper, agui.RoleReasoning, agui.RoleActivity, agui.RoleUser, agui.RoleAssistant, agui.RoleTool, agui.RoleUser} {
		msg := m.message(role)
		if n := len(req.Messages); role == agui.RoleTool {
			msg.ToolCallID = req.Messages[n-1].ToolCalls[0].ID
		}
		req.Messages = append(req.Messages, msg)
	}
	last := &req.Messages[len(req.Messages)-1]
	m.parts(last)
	m.attach(t, b, last)
	m.answers = []agui.Message{m.message(agui.RoleTool), m.message(agui.RoleTool), m.message(agui.RoleTool)}
	m.answers[0].Error = ""
	m.parts(&m.answers[0])

	s, err := b.StartRun(t.Context(), local, req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Append(t.Context(), local, s.RunID, runtime.AppendRequest{Content: m.mark("Append.Content"), ContextItemIDs: []string{m.mark("Append.ContextItemIDs")}}); err != nil {
		t.Fatal(err)
	}
	answered := 0
	for b.wait(s.RunID, runtime.Waiting, runtime.Completed).Status == runtime.Waiting {
		asked, err := b.Runs.Interrupts(t.Context(), local, s.RunID)
		if err != nil || len(asked) != 1 {
			t.Fatal(asked, err)
		}
		answer := runtime.StartRequest{Agent: "assistant", ThreadID: s.ThreadID}
		if answered < len(m.answers)-1 {
			msg := m.answers[answered]
			msg.ToolCallID = asked[0].ID
			answer.Messages = []agui.Message{msg}
		} else {
			var entry agui.ResumeEntry
			m.fill(reflect.ValueOf(&entry).Elem(), "Resume.", nil)
			entry.InterruptID, entry.Status = asked[0].ID, "resolved"
			answer.Resume = []agui.ResumeEntry{entry}
		}
		answered++
		if _, err := b.StartRun(t.Context(), local, answer); err != nil {
			t.Fatal(err)
		}
	}
	if s, err = b.StartRun(t.Context(), local, runtime.StartRequest{Agent: "assistant", ThreadID: s.ThreadID, Messages: []agui.Message{{Role: agui.RoleUser, Content: "Again"}}, Tools: req.Tools}); err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Completed, runtime.Waiting)
}

// check checks that all marks in what was sent were judged, and that those of some places were sent.
func (m *marked) check(t *testing.T, sent []string, reaches ...string) {
	t.Helper()
	judged, reached := m.judged.String(), make(map[string]bool)
	all := strings.ReplaceAll(strings.Join(sent, "\n"), `\u0051`, "Q")
	for _, mark := range slices.Sorted(maps.Keys(m.places)) {
		place := m.places[mark]
		if !strings.Contains(all, mark) {
			continue
		}
		reached[place] = true
		if !strings.Contains(judged, mark) && !slices.Contains([]string{"Message.ID", "ThreadID", "RunID"}, place) {
			t.Errorf("%s was not judged", place)
		}
	}
	for _, place := range reaches {
		if !reached[place] {
			t.Errorf("%s is not sent", place)
		}
	}
}

// mark returns a mark for a place.
func (m *marked) mark(place string) string {
	mark := fmt.Sprintf("Q%dZ", len(m.places))
	m.places[mark] = place
	return mark
}

// escaped returns a mark as JSON can have it.
func (m *marked) escaped(place string) string { return `\u0051` + m.mark(place)[1:] }

// fill sets all members of a value, but for some.
func (m *marked) fill(v reflect.Value, place string, but []string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(m.mark(place))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		m.fill(v.Elem(), place, nil)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(m.json(place))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		m.fill(v.Index(0), place, nil)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !slices.Contains(but, f.Name) {
				at := f.Name
				if place != "" {
					at = strings.TrimSuffix(place, ".") + "." + f.Name
				}
				m.fill(v.Field(i), at, nil)
			}
		}
	}
}

// json returns an object, which is a JSON Schema, too.
func (m *marked) json(place string) []byte {
	return fmt.Appendf(nil, `{"type":"object","description":"%s","properties":{"%s":{"type":"string"}}}`, m.escaped(place), m.escaped(place))
}

// message returns a message of a role.
func (m *marked) message(role agui.Role) (msg agui.Message) {
	m.fill(reflect.ValueOf(&msg).Elem(), "Message", []string{"Role", "Parts"})
	if msg.Role = role; role != agui.RoleAssistant {
		msg.ToolCalls = nil
	}
	if role != agui.RoleTool {
		msg.ToolCallID, msg.Error = "", ""
	}
	if role == agui.RoleActivity {
		msg.Content, msg.Parts = "", m.json("Message.Parts")
	}
	for i := range msg.ToolCalls {
		msg.ToolCalls[i].Arguments = `{"a":"` + m.escaped("Message.ToolCalls.Arguments") + `"}`
	}
	return msg
}

// parts gives a message parts of all kinds.
func (m *marked) parts(msg *agui.Message) {
	coded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	var list []agui.Part
	for _, kind := range []string{"text", "image", "audio", "video", "document"} {
		for _, source := range []string{"data", "data: URL", "url", "file"} {
			var p agui.Part
			m.fill(reflect.ValueOf(&p).Elem(), "Part", nil)
			if p.Type = kind; kind == "text" {
				p.Source = nil
				list = append(list, p)
				break
			}
			switch p.Source.Type = source; source {
			case "data":
				p.Source.Value, p.Source.MimeType = coded("text "+p.Source.Value), "text/plain"
			case "data: URL":
				p.Source.Type, p.Source.Value = "url", "data:text/plain;base64,"+coded("text "+p.Source.Value)
			case "url":
				p.Source.Value = "https://example.com/" + p.Source.Value
			}
			list = append(list, p)
		}
	}
	msg.Content = ""
	msg.Parts, _ = json.Marshal(list)
}

// attach attaches a text to a message.
func (m *marked) attach(t *testing.T, b *bench, msg *agui.Message) {
	t.Helper()
	text := []byte("text " + m.mark("Attachment"))
	a, err := b.Uploads.Add(t.Context(), local, runtime.Upload{Filename: m.mark("Attachment.Filename") + ".txt", Type: "text/plain", Body: bytes.NewReader(text)})
	if err != nil {
		t.Fatal(err)
	}
	msg.Metadata, _ = json.Marshal(map[string]any{"attachments": []any{map[string]any{"bucket": a.Project, "path": a.Path, "filename": m.mark("Message.Metadata")}}})
}

// object matches JSON inside of a text.
var object = regexp.MustCompile(`(?s)^\s*[{[].*[]}]\s*$`)

// decoded returns a JSON text as it is, and all texts in it as readers have them, those of JSON in texts among them.
func decoded(raw []byte) (all []string) {
	all = []string{string(raw)}
	d := json.NewDecoder(bytes.NewReader(raw))
	for {
		token, err := d.Token()
		if err != nil {
			return all
		}
		text, _ := token.(string)
		if all = append(all, text); object.MatchString(text) && json.Valid([]byte(text)) {
			all = append(all, decoded([]byte(text))...)
		}
		if data, err := base64.StdEncoding.DecodeString(text); err == nil && len(data) > 0 {
			all = append(all, string(data))
		}
	}
}
