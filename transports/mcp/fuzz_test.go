package mcp

import (
	"encoding/json"
	"errors"
	"strconv"
	"testing"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/wire"
)

// FuzzArguments checks that any arguments of any tool either fit its schema, and can then be read as it says, or
// are refused as the caller's mistake.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `{}`, `[]`, `{"conversation_id": "c", "run_id": "r", "after_event_id": 7, "limit": 1e2}`,
		`{"conversation_id": "c", "run_id": "r", "after_event_id": -1}`, `{"conversation_id": "c", "run_id": "r", "limit": 1.0, "more": 1}`,
		`{"agent": "echo", "content": "x", "thread_id": "t", "run_id": "r", "state": {"n": 1e400}, "metadata": {"a": null}}`,
		`{"workflow_id": "demo", "messages": [{"role": "user", "content": "x"}], "multitask": "reject"}`,
		`{"run_id": "r", "content": "x", "context_item_ids": ["i"]}`, `{"run_id": "r", "resume": [{"interruptId": "i", "status": "resolved"}]}`,
		`{"status": "RUNNING", "since": "2024-01-15T10:00:00Z", "cursor": "x", "limit": 500}`, "{\"run_id\": \"\xff\"}", `{"limit": 99999999999999999999}`,
		`{"run_id": "r", "run_id": "s"}`, `{"limit": 1e-1}`, `{"limit": 1e1000000}`,
		`{"agent": "echo", "content": "x", "": 1}`, `{"agent": "echo", "content": "x", "_": 1, "a__b": 2, "run_": 3}`,
	} {
		f.Add([]byte(seed))
	}
	all := tools()
	f.Fuzz(func(t *testing.T, raw []byte) {
		for i := range all {
			args, err := all[i].arguments(raw)
			if mistake(t, all[i].Name, err); err != nil {
				continue
			}
			for name := range args {
				_ = args.text(name)
			}
			for _, name := range []string{"limit", "after_event_id"} {
				if text := args.integer(name); text != "" {
					if _, err := strconv.ParseInt(text, 10, 64); err != nil && len(text) < 19 {
						t.Errorf("%s: %s is the integer %q", all[i].Name, args[name], text)
					}
				}
			}
			body, err := args.body()
			if mistake(t, all[i].Name, err); err != nil {
				continue
			}
			if !json.Valid(body) {
				t.Errorf("%s: the body is %q", all[i].Name, body)
			}
			_, err = wire.DecodeRun(body)
			mistake(t, all[i].Name, err)
		}
	})
}

// mistake checks that err, if any, names the caller's mistake.
func mistake(t *testing.T, tool string, err error) {
	t.Helper()
	if refusal, ok := errors.AsType[*runtime.Error](err); err != nil && (!ok || refusal.Kind != runtime.KindInvalid || refusal.Code == "" || refusal.Detail == "") {
		t.Errorf("%s: refused with %#v", tool, err)
	}
}
