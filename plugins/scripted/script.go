package scripted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// op is one operation. kind names the member that selects it; the others are its parameters.
type op struct {
	kind string

	Say          string          `json:"say"`
	Tokens       int             `json:"tokens"`
	Reason       string          `json:"reason"`
	Tool         string          `json:"tool"`
	State        json.RawMessage `json:"state"`
	Progress     float64         `json:"progress"`
	Ask          question        `json:"ask"`
	WaitMS       int             `json:"waitMs"`
	WaitUntil    time.Time       `json:"waitUntil"`
	Fail         string          `json:"fail"`
	Panic        string          `json:"panic"`
	EmitAfterEnd bool            `json:"emitAfterEnd"`

	DelayMS   int             `json:"delayMs"`   // say, reason, tokens
	Size      int             `json:"size"`      // tokens
	Args      json.RawMessage `json:"args"`      // tool
	Message   string          `json:"message"`   // progress
	Code      string          `json:"code"`      // fail
	Retryable bool            `json:"retryable"` // fail
	Times     int             `json:"times"`     // fail; 0 means always
}

type question struct {
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"schema"`
}

// parameters lists the other members that each kind of op accepts.
var parameters = map[string][]string{
	"say":          {"delayMs"},
	"tokens":       {"size", "delayMs"},
	"reason":       {"delayMs"},
	"tool":         {"args"},
	"state":        nil,
	"progress":     {"message"},
	"ask":          nil,
	"waitMs":       nil,
	"waitUntil":    nil,
	"fail":         {"code", "retryable", "times"},
	"panic":        nil,
	"emitAfterEnd": nil,
}

const (
	maxTokens = 10_000_000
	maxSize   = 1 << 20
	maxDelay  = 3_600_000
	maxWait   = 365 * 24 * 3_600_000
)

// parse reads a script. Any text but a JSON object with the member do becomes one say.
func parse(text string) ([]op, error) {
	var script map[string]json.RawMessage
	if !strings.HasPrefix(strings.TrimSpace(text), "{") || json.Unmarshal([]byte(text), &script) != nil || script["do"] == nil {
		return []op{{kind: "say", Say: text}}, nil
	}
	if len(script) > 1 {
		return nil, errors.New("a script can only have the member do")
	}
	var list []json.RawMessage
	if err := json.Unmarshal(script["do"], &list); err != nil {
		return nil, errors.New("do must be an array")
	}
	ops := make([]op, len(list))
	for i, raw := range list {
		if err := ops[i].parse(raw); err != nil {
			return nil, fmt.Errorf("do[%d]: %w", i, err)
		}
	}
	return ops, nil
}

func (o *op) parse(raw json.RawMessage) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return errors.New("must be an object")
	}
	for name := range members {
		if _, ok := parameters[name]; !ok {
			continue
		}
		if o.kind != "" {
			return fmt.Errorf("must do one thing, not %s and %s", min(o.kind, name), max(o.kind, name))
		}
		o.kind = name
	}
	if o.kind == "" {
		return errors.New("must have one of say, tokens, reason, tool, state, progress, ask, waitMs, waitUntil, fail, panic and emitAfterEnd")
	}
	for name, val := range members {
		if name != o.kind && !slices.Contains(parameters[o.kind], name) {
			return fmt.Errorf("%s has no parameter %q", o.kind, name)
		}
		if string(val) == "null" {
			return fmt.Errorf("%s is null", name)
		}
	}
	o.Size = 4
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(o); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fmt.Errorf("%s cannot be a JSON %s", wrong.Field, wrong.Value)
		}
		return err
	}
	return o.check()
}

func (o *op) check() error {
	switch {
	case o.kind == "tokens" && (o.Tokens < 1 || o.Tokens > maxTokens):
		return fmt.Errorf("tokens must be between 1 and %d", maxTokens)
	case o.Size < 1 || o.Size > maxSize:
		return fmt.Errorf("size must be between 1 and %d", maxSize)
	case o.DelayMS < 0 || o.DelayMS > maxDelay:
		return fmt.Errorf("delayMs must be between 0 and %d", maxDelay)
	case o.kind == "tool" && o.Tool == "":
		return errors.New("tool is empty")
	case !isObject(o.Args):
		return errors.New("args must be an object")
	case !isObject(o.State):
		return errors.New("state must be an object")
	case o.Progress < 0 || o.Progress > 1:
		return errors.New("progress must be between 0 and 1")
	case o.kind == "ask" && o.Ask.Message == "":
		return errors.New("ask needs a message")
	case !isObject(o.Ask.Schema):
		return errors.New("schema must be an object")
	case o.WaitMS < 0 || o.WaitMS > maxWait:
		return fmt.Errorf("waitMs must be between 0 and %d", maxWait)
	case o.Times < 0:
		return errors.New("times is negative")
	}
	return nil
}

// isObject reports whether raw is an object or absent.
func isObject(raw json.RawMessage) bool { return raw == nil || raw[0] == '{' }
