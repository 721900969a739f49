package wire_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/wire"
)

func TestCommandCursor(t *testing.T) {
	t.Parallel()
	for cursor, want := range map[string]int64{`0`: 0, `57`: 57, `9223372036854775807`: 1<<63 - 1, `"latest"`: runtime.Latest, `null`: 0} {
		cmd, err := wire.DecodeCommand([]byte(`{"op": "subscribe", "threadId": "t", "afterEventId": ` + cursor + `}`))
		if err != nil || cmd.After != want {
			t.Errorf("%s: got %d, %v", cursor, cmd.After, err)
		}
	}
	for _, cursor := range []string{`-1`, `1.0`, `1e3`, `"57"`, `"Latest"`, `true`, `[]`, `{}`, `9223372036854775808`, `""`} {
		_, err := wire.DecodeCommand([]byte(`{"op": "subscribe", "threadId": "t", "afterEventId": ` + cursor + `}`))
		refused(t, err, "invalid_cursor", "afterEventId")
	}
}

func TestRefusedCommandKeepsItsRef(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"ref": "r"}`, `{"ref": "r", "op": 1}`, `{"ref": "r", "op": "subscribe"}`, `{"ref": "r", "op": "cancel", "runId": 7}`,
	} {
		if cmd, err := wire.DecodeCommand([]byte(body)); err == nil || string(cmd.Ref) != `"r"` {
			t.Errorf("%s: got %s, %v", body, cmd.Ref, err)
		}
	}
}

func TestRequestIsAddressedByItsPath(t *testing.T) {
	t.Parallel()
	reg := new(host.Registry)
	req := wire.RunRequest{}
	if err := req.Address(reg, "a"); err != nil || req.Agent != "a" || req.WorkflowID != "" {
		t.Errorf("got %+v, %v", req, err)
	}
	if err := req.Address(reg, "a"); err != nil { // it says the same
		t.Error(err)
	}
	refused(t, req.Address(reg, "b"), "invalid_request", "leave agent and workflowId out")
}

// FuzzCommand checks that any frame is either a command that has what its op needs, or refused as the client's
// mistake, and that a ref can stand in an answer.
func FuzzCommand(f *testing.F) {
	for _, seed := range []string{
		`{"op": "subscribe", "ref": 1, "threadId": "t", "afterEventId": 7}`, `{"op": "subscribe", "threadId": "t", "afterEventId": "latest"}`,
		`{"op": "unsubscribe", "ref": "x", "threadId": "t"}`, `{"op": "run", "agent": "echo", "content": "x", "runId": "r"}`,
		`{"op": "append", "runId": "r", "content": "x", "contextItemIds": ["i"]}`, `{"op": "cancel", "runId": "r"}`,
		`{"op": "resume", "runId": "r", "resume": [{"interruptId": "i", "status": "resolved"}]}`,
		`{"op": "event", "runId": "r", "name": "paid", "payload": {}}`,
		`{"op": null, "ref": {}}`, `{`, `[]`, "{\"op\": \"\xff\"}", `{"ref": 1e999}`, `{"ref": "\u0000"}`, `{"op":"run","runId":"r","ref":-0}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		cmd, err := wire.DecodeCommand(body)
		mistake(t, err)
		if _, bad := json.Marshal(map[string]json.RawMessage{"ref": cmd.Ref}); bad != nil || len(cmd.Ref) > 256 {
			t.Fatalf("the ref %s cannot be answered: %v", cmd.Ref, bad)
		}
		if err != nil {
			return
		}
		switch cmd.Op {
		case "subscribe", "unsubscribe":
			if cmd.ThreadID == "" || cmd.After < runtime.Latest {
				t.Fatalf("got %+v", cmd)
			}
		case "append":
			_, err = cmd.Append()
		case "resume":
			_, err = cmd.Resume()
		case "event":
			_, err = cmd.Event()
		case "run":
			_, err = cmd.Run()
		case "cancel":
		default:
			t.Fatalf("took the op %q", cmd.Op)
		}
		mistake(t, err)
	})
}

// mistake checks that err, if any, names a client's mistake.
func mistake(t *testing.T, err error) {
	t.Helper()
	var e *runtime.Error
	if err != nil && (!errors.As(err, &e) || e.Kind != runtime.KindInvalid || e.Code == "" || e.Detail == "") {
		t.Fatalf("refused with %#v", err)
	}
}

// Whose a run is counts where one is named, and is somebody else's member elsewhere.
func TestWhoseIsReadOfCommandsAboutARun(t *testing.T) {
	t.Parallel()
	if _, err := wire.DecodeCommand([]byte(`{"op": "run", "agent": "echo", "content": "x", "user": {"id": 7}}`)); err != nil {
		t.Error(err)
	}
	if cmd, err := wire.DecodeCommand([]byte(`{"op": "cancel", "runId": "r", "user": "ann"}`)); err != nil || cmd.User != "ann" {
		t.Errorf("got %q, %v", cmd.User, err)
	}
	if _, err := wire.DecodeCommand([]byte(`{"op": "cancel", "runId": "r", "user": 7}`)); err == nil {
		t.Error("a user that is a number is taken")
	}
}
