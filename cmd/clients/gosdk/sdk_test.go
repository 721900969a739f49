// Package gosdk runs AG-UI's Go client and a client that oapi-codegen generates against Baton. It is a separate module, so that their
// dependencies are not in the module graph of Baton's users.
package gosdk

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/ag-ui-protocol/ag-ui/sdks/community/go/pkg/client/sse"
	sdk "github.com/ag-ui-protocol/ag-ui/sdks/community/go/pkg/core/events"
	"github.com/ag-ui-protocol/ag-ui/sdks/community/go/pkg/core/types"
	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/runtime"
)

const patience = 10 * time.Minute

// through runs the scripted agent with AG-UI's Go client and returns the types of the decoded events. It calls each for every event.
func through(t *testing.T, url, run, ops string, each func(sdk.Event)) (kinds []string) {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	client := sse.NewClient(sse.Config{Endpoint: url + "/api/v1/agui/scripted", Logger: log})
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	frames, errs, err := client.Stream(sse.StreamOptions{Context: ctx, Payload: types.RunAgentInput{
		ThreadID: run, RunID: run, State: map[string]any{},
		Messages: []types.Message{{ID: "of-" + run, Role: types.RoleUser, Content: `{"do": [` + ops + `]}`}},
		Tools:    []types.Tool{}, Context: []types.Context{}, ForwardedProps: map[string]any{},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for frame := range frames {
		ev, err := sdk.EventFromJSON(frame.Data)
		if err == nil {
			err = ev.Validate()
		}
		if err != nil {
			t.Fatalf("%v in %s", err, frame.Data)
		}
		each(ev)
		kinds = append(kinds, string(ev.Type()))
	}
	if err := <-errs; err != nil {
		t.Error(err)
	}
	return kinds
}

// serve returns a server that serves until the test ends.
func serve(t *testing.T) *baton.Server {
	t.Helper()
	s, err := baton.New(baton.Config{
		Listen: "127.0.0.1:0", Database: "sqlite:" + filepath.Join(t.TempDir(), "baton.db"), Plugins: builtin.Plugins(),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err == nil {
		err = s.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestGoSDK_DecodesAllStreams(t *testing.T) {
	s := serve(t)
	local := runtime.MustCaller("default", "local", runtime.RoleUser)
	nothing := func(sdk.Event) {}
	for name, tell := range map[string]struct {
		ops  string
		each func(sdk.Event)
		want []string
	}{
		"run": {`{"say": "hello world"}, {"state": {"n": 1}}`, nothing, []string{
			"RUN_STARTED", "STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT",
			"TEXT_MESSAGE_END", "STATE_DELTA", "STEP_FINISHED", "RUN_FINISHED",
		}},
		"tool": {`{"tool": "calculator", "args": {"expression": "6*7"}}`, nothing, []string{
			"RUN_STARTED", "STEP_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT",
			"STEP_FINISHED", "RUN_FINISHED",
		}},
		"error": {`{"fail": "no luck", "code": "unlucky"}`, nothing, []string{
			"RUN_STARTED", "STEP_STARTED", "STEP_FINISHED", "RUN_ERROR",
		}},
		"cancel": {`{"tool": "sleep", "args": {"ms": 60000}}`, func(ev sdk.Event) {
			if ev.Type() != sdk.EventTypeToolCallEnd {
				return
			}
			if _, err := s.Runtime().Cancel(t.Context(), local, "cancel"); err != nil {
				t.Error(err)
			}
		}, []string{
			"RUN_STARTED", "STEP_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT",
			"STEP_FINISHED", "RUN_ERROR",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tell.want, through(t, s.URL(), name, tell.ops, tell.each)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
