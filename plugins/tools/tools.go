// Package tools has small tools without dependencies for trying out and testing a server.
package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

var (
	_ plugins.Tool = Sleep{}
	_ plugins.Tool = Stubborn{}
	_ plugins.Tool = Calculator{}
	_ plugins.Tool = Clock{}
	_ plugins.Tool = Fail{}
)

const pauseSchema = `{
	"type": "object",
	"properties": {"ms": {"type": "integer", "minimum": 0, "maximum": 3600000, "description": "milliseconds"}},
	"required": ["ms"],
	"additionalProperties": false
}`

// Sleep waits until its context ends or the given time has passed.
type Sleep struct{}

// Info describes the tool, which is named sleep.
func (Sleep) Info() plugins.Info {
	return plugins.Info{
		Name:        "sleep",
		Description: "Waits for some milliseconds.",
		Parameters:  json.RawMessage(pauseSchema),
		Idempotent:  true,
	}
}

// Call waits, or fails with ctx's cause if ctx is done first.
func (Sleep) Call(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	pause, err := pauseOf(call)
	if err != nil {
		return agui.ToolOutput{}, err
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return agui.ToolOutput{}, context.Cause(ctx)
	case <-timer.C:
		return summary("slept %d ms", pause.Milliseconds())
	}
}

// Stubborn sleeps and ignores its context, which tools should not do. It is not Idempotent, so a crash shows as an
// interrupted result.
type Stubborn struct{}

// Info describes the tool, which is named stubborn.
func (Stubborn) Info() plugins.Info {
	return plugins.Info{
		Name:        "stubborn",
		Description: "Waits for some milliseconds, whatever happens.",
		Parameters:  json.RawMessage(pauseSchema),
	}
}

// Call waits.
func (Stubborn) Call(_ context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	pause, err := pauseOf(call)
	if err != nil {
		return agui.ToolOutput{}, err
	}
	<-time.After(pause)
	return summary("slept %d ms", pause.Milliseconds())
}

func pauseOf(call *plugins.Call) (time.Duration, error) {
	var args struct {
		MS int64 `json:"ms"`
	}
	if err := arguments(call, &args); err != nil {
		return 0, err
	}
	if args.MS < 0 || args.MS > time.Hour.Milliseconds() {
		return 0, &plugins.Error{Code: "bad_arguments", Message: "ms must be between 0 and 3600000"}
	}
	return time.Duration(args.MS) * time.Millisecond, nil
}

// Clock returns the current time.
type Clock struct {
	Now func() time.Time // nil means time.Now
}

// Info describes the tool, which is named clock.
func (Clock) Info() plugins.Info {
	return plugins.Info{
		Name:        "clock",
		Description: "Tells the date and the time, in UTC.",
		Parameters:  json.RawMessage(`{"type": "object", "additionalProperties": false}`),
		Idempotent:  true,
	}
}

// Call returns the time as RFC 3339.
func (c Clock) Call(context.Context, *plugins.Call) (agui.ToolOutput, error) {
	now := time.Now
	if c.Now != nil {
		now = c.Now
	}
	return summary("%s", now().UTC().Format(time.RFC3339))
}

// Fail always fails.
type Fail struct{}

// Info describes the tool, which is named fail.
func (Fail) Info() plugins.Info {
	return plugins.Info{
		Name:        "fail",
		Description: "Fails with the message it is given.",
		Parameters: json.RawMessage(`{
			"type": "object",
			"properties": {"message": {"type": "string"}},
			"required": ["message"],
			"additionalProperties": false
		}`),
		Idempotent: true,
	}
}

// Call returns the message as an error with the code failed.
func (Fail) Call(_ context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	var args struct {
		Message string `json:"message"`
	}
	if err := arguments(call, &args); err != nil {
		return agui.ToolOutput{}, err
	}
	return agui.ToolOutput{}, &plugins.Error{Code: "failed", Message: args.Message}
}

func arguments(call *plugins.Call, args any) error {
	if err := json.Unmarshal(call.Args, args); err != nil {
		return &plugins.Error{Code: "bad_arguments", Message: fmt.Sprintf("the arguments do not match the schema: %v", err)}
	}
	return nil
}

func summary(format string, args ...any) (agui.ToolOutput, error) {
	return agui.ToolOutput{ResultSummary: fmt.Sprintf(format, args...)}, nil
}
