package provider_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/llmtest"
)

// TestStream_AcceptsForms plays answers in forms that servers use although no document has them.
func TestStream_AcceptsForms(t *testing.T) {
	for _, p := range protocols {
		for name, form := range llmtest.Forms(p.name) {
			t.Run(name, func(t *testing.T) {
				openOne(t, p.name, llmtest.Always(form.Script), func(t *testing.T, m llm.Streamer, _ *llmtest.Server) {
					var got seen
					req := question()
					req.Options.Tools = tools("look", "lookup", "now")
					res, err := m.Stream(t.Context(), req, got.show)
					check(t, form, got, res, err)
				})
			})
		}
	}
}

// Bytes that belong to nothing are skipped, in any encoding and without an end.
func TestStream_SkipsOtherBytes(t *testing.T) {
	script := llmtest.Script{NoEnd: true, Gzip: true, Usage: usage, Header: map[string]string{"Content-Type": "application/octet-stream"}, Steps: []llmtest.Step{
		llmtest.Text("Hel"), llmtest.Raw(": a comment\n\ndata: ping\n\nretry: 7\n\n"), llmtest.Text("lo"), llmtest.Raw("\n\n"),
	}}
	open(t, llmtest.Always(script), func(t *testing.T, i int, m llm.Streamer, _ *llmtest.Server) {
		var got seen
		res, err := m.Stream(t.Context(), question(), got.show)
		if err != nil {
			t.Fatal(err)
		}
		script := script
		script.Steps = []llmtest.Step{llmtest.Text("Hello")}
		same(t, script, got, res, protocols[i].config.Provider)
	})
}

// tools returns tools without parameters.
func tools(names ...string) (list []llms.Tool) {
	for _, name := range names {
		list = append(list, llms.Tool{Type: "function", Function: &llms.FunctionDefinition{Name: name}})
	}
	return list
}

// check checks an answer against its form.
func check(t *testing.T, form llmtest.Form, got seen, res llm.Response, err error) {
	t.Helper()
	if form.Code != "" {
		var failed *llm.Error
		if !errors.As(err, &failed) || failed.Code != form.Code || !strings.Contains(failed.Message, form.Text) {
			t.Errorf("%+v, %#v, want %s: %s", res, err, form.Code, form.Text)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	want := form.Finish
	switch {
	case want == "" && form.Calls != nil:
		want = "tool_calls"
	case want == "":
		want = "stop"
	}
	if res.Text != form.Text || res.Reasoning != form.Reasoning || res.Finish != want || got.text != res.Text || got.reasoning != res.Reasoning {
		t.Errorf("text %q, reasoning %q, finish %q; shown %q, %q", res.Text, res.Reasoning, res.Finish, got.text, got.reasoning)
	}
	var calls, ids []string
	for _, c := range res.Calls {
		calls = append(calls, c.FunctionCall.Name+c.FunctionCall.Arguments)
		ids = append(ids, c.ID)
	}
	if diff := cmp.Diff(form.Calls, calls); diff != "" {
		t.Error(diff)
	}
	slices.Sort(ids)
	if slices.Contains(ids, "") || len(slices.Compact(ids)) != len(calls) {
		t.Errorf("ids %q", ids)
	}
}
