package metrics_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/stream"
	"github.com/batonrun/baton/transports/telemetry/metrics"
)

// full returns metrics of which each has a value.
func full() *metrics.Metrics {
	m := metrics.New("test")
	m.Watch(func() runtime.Stats { return runtime.Stats{} }, func() stream.Stats { return stream.Stats{} }, func() int64 { return 0 })
	ms := m.Measures()
	ms.Committed(3, time.Millisecond)
	ms.Replayed(64)
	ms.Claimed(time.Millisecond)
	ms.FirstEvent(time.Millisecond)
	ms.Ended(runtime.Completed, time.Second)
	ms.Tool(false, time.Second)
	ms.ModelCall(call("openai", "gpt", nil), time.Second)
	ms.Tokens(agui.TokenUsage{Provider: "openai", Model: "gpt", InputTokens: 5})
	m.Request("GET", "/healthz", 200, time.Millisecond)
	return m
}

func call(provider, model string, err error) runtime.ModelEnd {
	return runtime.ModelEnd{ModelCall: plugins.ModelCall{Usage: agui.TokenUsage{Provider: provider, Model: model}}, Err: err}
}

func text(m *metrics.Metrics) string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

func names(pattern, in string) []string {
	var all []string
	for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(in, -1) {
		all = append(all, found[1])
	}
	slices.Sort(all)
	return all
}

func TestEveryMetricIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	there := names(`(?m)^# TYPE (baton_[a-z_]+)`, text(full()))
	if diff := cmp.Diff(there, names("(?m)^\\| `(baton_[a-z_]+)`", string(doc))); diff != "" {
		t.Errorf("there are (-) and documented are (+):\n%s", diff)
	}
}

func TestLabelsAreBounded(t *testing.T) {
	m := full()
	ms := m.Measures()
	for i := range 5000 {
		ms.ModelCall(call(fmt.Sprint("p", i), "m", errors.New("no")), time.Second)
		ms.Tokens(agui.TokenUsage{Provider: "p", Model: fmt.Sprint("m", i), InputTokens: 1, OutputTokens: 1})
		m.Request(fmt.Sprint("METHOD", i), "", 404, time.Millisecond)
	}
	ms.Tokens(agui.TokenUsage{Provider: "p", Model: strings.Repeat("x", 300), InputTokens: 1})
	out := text(m)
	if n := strings.Count(out, "\n"); n > 3000 {
		t.Errorf("there are %d lines", n)
	}
	for _, want := range []string{
		`baton_provider_call_duration_seconds_count{model="other",outcome="failure",provider="other"}`,
		`baton_tokens_total{kind="input",model="other",provider="other"}`,
		`baton_http_requests_total{method="other",route="none",status="404"} 5000`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is missing", want)
		}
	}
}
