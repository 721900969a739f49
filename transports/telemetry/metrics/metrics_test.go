package metrics_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/work"
	"github.com/batonrun/baton/transports/stream"
	"github.com/batonrun/baton/transports/telemetry/metrics"
)

// full returns metrics of which each has a value.
func full() *metrics.Metrics {
	m := metrics.New("test")
	m.Watch(func() runtime.Stats { return runtime.Stats{} }, func() stream.Stats { return stream.Stats{} }, func() int64 { return 0 }, func() map[string]string { return map[string]string{"files": "away"} })
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
	t.Parallel()
	doc, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	there := names(`(?m)^# TYPE (baton_[a-z_]+)`, text(full()))
	if diff := cmp.Diff(there, names("(?m)^\\| `(baton_[a-z_]+)`", string(doc))); diff != "" {
		t.Errorf("there are (-) and documented are (+):\n%s", diff)
	}
}

// Lookups are shown under the name of their kind.
func TestWhatIsLookedUpIsShown(t *testing.T) {
	t.Parallel()
	m := metrics.New("test")
	engine := runtime.Stats{Stats: work.Stats{
		Queued: 1, Running: 2, Waiting: 3, Parked: 23, OldestQueued: 4 * time.Second, Lingering: 5, Asked: 6, Said: 7, AbandonedAgents: 8, AbandonedTools: 9, Fenced: 10, Repaired: 22, Link: bus.Stats{Sent: 20, Lost: 21, Deaf: true},
	}, Commits: commit.Stats{Items: 11, Bytes: 12, Age: 13 * time.Second}, Rings: 14, RetentionLag: 19 * time.Second}
	m.Watch(func() runtime.Stats { return engine }, func() stream.Stats { return stream.Stats{Streams: 15, Sockets: 16, Cut: 17} }, func() int64 { return 18 },
		func() map[string]string { return map[string]string{"files": "away"} })
	for _, measure := range []any{engine.Stats, engine.Commits, stream.Stats{Streams: 15, Sockets: 16, Cut: 17}} {
		for i, v := 0, reflect.ValueOf(measure); i < v.NumField(); i++ {
			if v.Field(i).IsZero() {
				t.Errorf("%T.%s is not looked at", measure, v.Type().Field(i).Name)
			}
		}
	}
	out := text(m)
	for _, want := range []string{
		`baton_runs{status="queued"} 1`, `baton_runs{status="running"} 2`, `baton_runs{status="waiting"} 3`, `baton_runs{status="parked"} 23`, "baton_queue_age_seconds 4",
		"baton_abandoned 5", `baton_run_bytes{kind="asked"} 6`, `baton_run_bytes{kind="said"} 7`, `baton_abandoned_total{kind="agent"} 8`,
		`baton_abandoned_total{kind="tool"} 9`, "baton_fenced_writes_total 10", "baton_commit_queue_items 11", "baton_commit_queue_bytes 12",
		"baton_commit_queue_age_seconds 13", "baton_ring_bytes 14", `baton_streams{kind="sse"} 15`, `baton_streams{kind="websocket"} 16`,
		"baton_readers_cut_total 17", "baton_client_bytes 18", "baton_retention_lag_seconds 19", "baton_hint_datagrams_total 20", "baton_hint_failures_total 21", "baton_hints_deaf 1", "baton_queue_repaired_total 22",
		`baton_plugin_unwell{plugin="files"} 1`,
	} {
		if !strings.Contains(out, "\n"+want+"\n") {
			t.Errorf("%s is missing in\n%s", want, out)
		}
	}
}

func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
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
