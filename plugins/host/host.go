// Package host is the part of the plugin API for runtimes: the Registry of the plugins that a server offers, and optional
// abilities of a [plugins.Host] and of agents. Authors of plugins do not need it.
package host

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// AttachmentOpener is a Host with attachments.
type AttachmentOpener interface {
	// OpenAttachment opens the attachment with a.Bucket and a.Path if it belongs to the run's user, and returns its
	// verified description. It fails with plugins.ErrNoAttachment if there is none.
	OpenAttachment(ctx context.Context, a plugins.Attachment) (plugins.Attachment, io.ReadCloser, error)
}

// ToolAwaiter is a Host some of whose tools are not known when a worker begins.
type ToolAwaiter interface {
	// AwaitTools waits until the tools that match a pattern are known, for a limited time.
	AwaitTools(patterns ...string)
}

// ResultOpener is a Host with results of tools in files.
type ResultOpener interface {
	// OpenResult is Run.OpenResult.
	OpenResult(ctx context.Context, call string) (io.ReadCloser, error)
}

// ModelWatcher is a Host that observes model calls while they run: their duration and failures.
type ModelWatcher interface {
	// BeginModelCall reports the start of a model call in a worker or in the function of a Do, and the prompt, nil
	// if the worker does not give it. It returns the context for the call and a function that reports its end: the usage as far as
	// known, the answer, likewise, and the error.
	BeginModelCall(ctx context.Context, p *plugins.Prompt) (context.Context, func(c plugins.ModelCall, a *plugins.ModelAnswer, err error))
	// KeepsPrompts is Run.KeepsPrompts.
	KeepsPrompts() bool
}

// ModelLimiter is a Host that limits model calls.
type ModelLimiter interface {
	// MayCallModel fails with a *plugins.Error if a budget of the run is used up, or with plugins.ErrWaiting while it asks an operator.
	MayCallModel() error
	// ReserveModelCall is MayCallModel before a call, for which it reserves the estimate: see Run.MayCallModel. settle lowers the reservation
	// by what was counted, or ends it if used is nil.
	ReserveModelCall(ctx context.Context, estimate agui.TokenUsage) (settle func(used *agui.TokenUsage), err error)
}

// Idler is a Host whose runs can lend their slots while they wait.
type Idler interface {
	// Idle is Run.Idle.
	Idle(ctx context.Context, wait func() error) error
	// WaitForPace is Run.WaitForPace.
	WaitForPace(ctx context.Context, until time.Time, wait func() error) error
}

// GuardCaller is a Host with agents and tools that can be guards. See [plugins.Guard].
type GuardCaller interface {
	// GuardAgent executes the agent u.Name with [plugins.ExecuteGuard], with places that begin inside of u, and returns its
	// output. It has no record.
	GuardAgent(ctx context.Context, u plugins.Use, query string) (agui.WorkerOutput, error)
	// GuardTool calls the tool u.Name with u.Request, without showing it, and returns its output. It has no record.
	GuardTool(ctx context.Context, u plugins.Use) (agui.ToolOutput, error)
	// FitArgs returns the arguments of a call as the tool gets them, and unchanged if they do not fit, because such a call fails.
	FitArgs(tool string, args json.RawMessage) json.RawMessage
	// ClientResult reports whether a tool is the client's, and returns the message with the result of its call.
	ClientResult(tool, call string) (m agui.Message, ok bool)
}

// Rememberer is a Host that stores texts of agents about threads.
type Rememberer interface {
	// Remember is Run.Remember.
	Remember(about, key, text string) error
	// Recall is Run.Recall.
	Recall(ctx context.Context, keys []string) (texts map[string]string, err error)
}

// Chooser is an Agent whose model is offered tools.
type Chooser interface {
	plugins.Agent
	// Chooses returns the names or patterns of the tools and agents, and the number that the model takes, 0 for any.
	Chooses() (patterns []string, most int)
}

// Reader is an Agent that reads a part of its input. The rest is not given to it, so that guards need not judge it.
type Reader interface {
	plugins.Agent
	// Reads returns the input without the members that the agent does not read.
	Reads(in plugins.Input) plugins.Input
}

// Overridable is an Agent that asks its model with Input.Overrides.
type Overridable interface {
	plugins.Agent
	// Overridable reports that it does.
	Overridable() bool
}
