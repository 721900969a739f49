package llm

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/runtime/agui"
)

// Streamer is a llms.Model that tells its answer piece by piece, calls of tools included. Those that Baton has for
// providers are Streamers; of any other Model the text alone is seen while it is made. Those of langchaingo 0.1.14 are for
// text, and its OpenAI for one call at a time too: parallel calls run together there, its Anthropic forgets calls that
// follow a text, and its Ollama calls no tools.
type Streamer interface {
	llms.Model
	// Stream asks the model once, without trying again, and gives each piece of its answer to show in the order in
	// which it arrived. It returns show's error when that fails, an *Error when the provider does, and soon after ctx
	// is done, with the connection closed. A Response beside an error holds what had been counted by then.
	Stream(ctx context.Context, req Request, show func(Piece) error) (Response, error)
}

// Reader is a Streamer that takes files that are neither text nor images. Of any other Model those are only named.
type Reader interface {
	// Reads reports whether the model takes files of a media type, as llms.BinaryContent.
	Reads(mediaType string) bool
}

// Taker is a Streamer that tells what its provider can be sent at all. Any other Model is sent everything, and fails where it
// cannot take it.
type Taker interface {
	// Takes reports whether a message may have a part of a media type, as llms.BinaryContent, or one that is only its URL, as
	// llms.ImageURLContent, whose media type is empty.
	Takes(mediaType string, url bool) bool
}

// Request is what a model is asked.
type Request struct {
	Messages []llms.MessageContent // a Carried among the parts of an AI message goes back to the provider it came from
	Options  llms.CallOptions      // its Tools among them; its streaming functions are not called
	Schema   json.RawMessage       // the JSON Schema that the answer must satisfy, nil for free text
}

// Carried is what a provider wants to see again with the message it belongs to, such as the signature of what the
// model thought; nobody else can read it.
type Carried struct {
	llms.TextContent // makes it a llms.ContentPart; empty

	Provider string
	Data     json.RawMessage
}

// Piece is a part of an answer. One of its members is set.
type Piece struct {
	Text      string
	Reasoning string
	Call      *CallPiece
	Usage     *agui.TokenUsage // what the provider has counted so far, which is counted also when the answer is cut
}

// CallPiece is a part of a tool call. Pieces of several calls may come interleaved; Index tells them apart.
type CallPiece struct {
	Index     int    // of the call in Response.Calls
	ID        string // the provider's, in a call's first piece
	Name      string // of the tool, in a call's first piece
	Arguments string // the next piece of the JSON; several of a call follow one another
}

// Response is a model's whole answer.
type Response struct {
	Text      string
	Reasoning string
	Calls     []llms.ToolCall // in the order in which they began; Arguments are complete JSON, "{}" for none
	Finish    string          // stop, tool_calls, length, content_filter, or the provider's own word
	Usage     agui.TokenUsage // Provider and Model are set
	Carried   []Carried
}

// Error is a failure of a provider. Message is fit for whoever runs the server and holds no credential.
type Error struct {
	Code       string        // such as rate_limited, model_overloaded, invalid_api_key, model_not_found, context_too_long
	Message    string        // fit for whoever runs the server
	Status     int           // of HTTP, 0 when there was no answer
	RetryAfter time.Duration // what the provider asked to wait, 0 when it did not
	Retryable  bool          // the same request may succeed later
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }
