package llm

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm/pace"
	"github.com/batonrun/baton/runtime/agui"
)

// Streamer is a llms.Model that streams its answer, including tool calls. Baton's models of providers are Streamers; other
// models stream text only. The models of langchaingo 0.1.14 are suitable for text, and its OpenAI for single calls: it
// mixes up parallel calls, its Anthropic drops calls after text, and its Ollama does not call tools.
type Streamer interface {
	llms.Model
	// Stream calls the model once, without repeating a request that was accepted, and passes each piece of its answer to show as it arrives. It returns
	// show's error if that fails, and an *Error if the provider does. It closes the connection and returns soon after ctx
	// is done. A Response returned with an error has the usage known by then.
	Stream(ctx context.Context, req Request, show func(Piece) error) (Response, error)
}

// Taker is a Streamer that reports which parts its provider accepts. It replaces others by texts that say so. Other Models get
// images alone.
type Taker interface {
	// Takes reports whether the model gets a part of a media type, as llms.BinaryContent, or a part with only a URL, as
	// llms.ImageURLContent, which has an empty media type.
	Takes(mediaType string, url bool) bool
}

// Carrier is a Streamer that knows which data it wants back. Others get all.
type Carrier interface {
	// Origin returns the Origin of its Carried, if the request names model, or no model if that is "".
	Origin(model string) string
}

// Paced is a Streamer whose calls wait for the limits of its provider, and are not made while it is down.
type Paced interface {
	Pacer() (p *pace.Pacer, model string)
}

// Request is a model's input.
type Request struct {
	Messages []llms.MessageContent // a Carried in an AI message is for the model that created it
	Options  llms.CallOptions      // including Tools; the streaming functions are not used
	Schema   json.RawMessage       // JSON Schema of the answer, nil for free text

	// LeftOut is called with the tools that the provider does not accept before its answer is read. nil ignores them.
	LeftOut func([]LeftOut) error

	sent []message // those of Messages, nil for messages that are not in the log
}

// LeftOut is a tool that a model does not get.
type LeftOut struct {
	Name string `json:"name"` // in Options.Tools
	Why  string `json:"why"`
}

// Learner is a Streamer that learns from its provider's refusals.
type Learner interface {
	// Learned returns the rules learned from the provider's refusals, for operators.
	Learned() []string
}

// Carried is data that a model needs back in its place in an answer, such as the signature of reasoning. It is opaque to others.
type Carried struct {
	llms.TextContent // makes it a llms.ContentPart; empty

	Origin string // the model and its address; other models do not get Data
	Data   json.RawMessage
}

// Piece is a part of an answer. Exactly one member is set.
type Piece struct {
	Text      string
	Reasoning string
	Call      *CallPiece
	Usage     *agui.TokenUsage // counted by the provider so far; counts even if the answer is interrupted
}

// CallPiece is a part of a tool call. Pieces of several calls can be interleaved; Index identifies the call. Pieces are a
// preview: if the calls of the Response differ, they are withdrawn.
type CallPiece struct {
	Index     int    // of the call in Response.Calls
	ID        string // the provider's id, in a call's first piece
	Name      string // of the tool, in a call's first piece
	Arguments string // the next piece of the JSON
}

// Response is a model's complete answer.
type Response struct {
	Text      string
	Reasoning string
	Calls     []llms.ToolCall // in order of their start; Arguments are complete JSON, "{}" for none
	Finish    string          // stop, tool_calls, length, content_filter, or the provider's own word
	Reason    string          // the provider's own words for Finish, for errors; can be empty
	Usage     agui.TokenUsage // with Provider and Model

	// Parts is the answer as it is in later requests: its text, Calls and Carried in order. nil if nothing is carried.
	Parts []llms.ContentPart
}

// Error is a failure of a provider.
type Error struct {
	Code       string        // one of those in docs/agents.md, such as rate_limited or context_too_long
	Message    string        // for operators; has no credentials
	Status     int           // HTTP status, 0 without an answer
	RetryAfter time.Duration // delay requested by the provider, 0 for none
	Retryable  bool          // the same request can succeed later
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }
