package remote_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/batonrun/baton/plugins/remote"
	"github.com/batonrun/baton/runtime/agui"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a remote that answers the nth request with the nth answer, and later ones with the last.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	asked   []agui.RunAgentInput
	bodies  []string
	headers []http.Header
	log     strings.Builder
}

// stream is an answer of events, one line of JSON each; each becomes a frame.
func stream(events string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for line := range strings.Lines(strings.TrimSpace(events)) {
			fmt.Fprintf(w, "data: %s\n\n", strings.TrimSpace(line))
		}
	}
}

const (
	started  = `{"type":"RUN_STARTED","threadId":"t","runId":"r"}` + "\n"
	finished = "\n" + `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`
	hello    = `{"type":"TEXT_MESSAGE_START","messageId":"m1","role":"assistant"}
		{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"hello "}
		{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"world"}
		{"type":"TEXT_MESSAGE_END","messageId":"m1"}`
)

func serve(t *testing.T, answers ...http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var in agui.RunAgentInput
		if err := json.Unmarshal(body, &in); err != nil {
			t.Errorf("request: %v", err)
		}
		s.mu.Lock()
		n := min(len(s.asked), len(answers)-1)
		s.asked, s.bodies, s.headers = append(s.asked, in), append(s.bodies, string(body)), append(s.headers, r.Header.Clone())
		s.mu.Unlock()
		answers[n](w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) agent(t *testing.T, change ...func(*remote.Config)) *remote.Agent {
	t.Helper()
	cfg := remote.Config{Name: "writer", URL: s.URL + "/agui", Log: slog.New(slog.NewTextHandler(locked{s}, nil))}
	for _, f := range change {
		f(&cfg)
	}
	a, err := remote.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(context.Background()) })
	return a
}

type locked struct{ s *server }

func (l locked) Write(p []byte) (int, error) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.s.log.Write(p)
}

func (s *server) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// brief is the log of a run without varying parts.
func brief(events []agui.Event) string {
	var b strings.Builder
	for _, ev := range events {
		switch e := ev.(type) {
		case agui.RunStarted, agui.RunFinished, agui.RunError:
			continue
		case agui.TextMessageStart:
			fmt.Fprintf(&b, "text %s", e.Role)
		case agui.TextMessageContent:
			fmt.Fprintf(&b, "+ %s", e.Delta)
		case agui.TextMessageEnd:
			fmt.Fprintf(&b, "end %s %s", e.Output.Status, e.Output.Answer)
		case agui.ToolCallStart:
			fmt.Fprintf(&b, "call %s", e.ToolCallName)
		case agui.ToolCallArgs:
			fmt.Fprintf(&b, "args %s", e.Delta)
		case agui.ToolCallResult:
			fmt.Fprintf(&b, "result %s %s", e.Output.Status, e.Content)
		case agui.StateDelta:
			fmt.Fprintf(&b, "delta %s", e.Delta)
		case agui.StateSnapshot:
			fmt.Fprintf(&b, "state %s", e.Snapshot)
		case agui.StepStarted:
			fmt.Fprintf(&b, "step %s", e.StepName)
		case agui.StepFinished:
			fmt.Fprintf(&b, "done %s", e.StepName)
		case agui.ReasoningMessageContent:
			fmt.Fprintf(&b, "thinks %s", e.Delta)
		case agui.Custom:
			fmt.Fprintf(&b, "custom %s %s", e.Name, e.Value)
		case agui.SubagentStarted:
			fmt.Fprintf(&b, "agent %s", e.Name)
		default:
			b.WriteString(string(ev.Type()))
		}
		if ev.Common().SubagentRunID != "" {
			b.WriteString(" (sub)")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func trim(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\t", "") + "\n" }
