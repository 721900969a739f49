// Package mcp is a server of the Model Context Protocol: its tools start, continue, cancel and list runs, and read a run's log.
// It is served over streamable HTTP at /mcp, without sessions, and over a pair of streams. Tools answer like the REST
// routes.
package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/wire"
)

// Transport serves a runtime's runs as tools.
type Transport struct {
	Runtime *runtime.Runtime
	// Streams are the server's: a run started here supersedes one of the same thread whose connection is closed. Nil if connections
	// own no runs.
	Streams *transports.Streams
	Log     *slog.Logger // default slog.Default
	Version string       // of the program, shown to clients
}

// callerKey is the context key of a tool call's runtime.Caller.
type callerKey struct{}

// Routes are the one that there is.
func (t Transport) Routes() []transports.Route {
	server := t.server()
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true,
		DisableLocalhostProtection: true, // auth.Browser has looked at Host and Origin
		MaxRequestBodyBytes:        -1,   // the server has its limit
	})
	return []transports.Route{{Method: fiber.MethodPost, Path: "/mcp", Input: true, Cancels: mayCancel, Known: func(c *fiber.Ctx, who runtime.Caller) error {
		if err := scan(c.Request().Body()); err != nil {
			return err
		}
		ctx := context.WithValue(c.UserContext(), callerKey{}, who) // the adaptor's is reused by later requests
		b, release := t.budget(c)
		defer release()
		ctx = context.WithValue(ctx, budgetKey{}, b)
		err := adaptor.HTTPHandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if takesJSON(r.Header.Values("Accept")) {
				r.Header.Set("Accept", "application/json, text/event-stream")
			}
			handler.ServeHTTP(w, r.WithContext(ctx))
		})(c)
		return errors.Join(err, explain(c))
	}}}
}

// takesJSON reports whether a client takes our answers, which are all JSON. The protocol's handler wants clients that take
// streams too.
func takesJSON(accept []string) bool {
	all := strings.Join(accept, ",")
	for kind := range strings.SplitSeq(all, ",") {
		kind, _, _ = strings.Cut(kind, ";")
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case "application/json", "application/*", "*/*":
			return true
		}
	}
	return strings.TrimSpace(all) == ""
}

// scan refuses bodies that the protocol's handler cannot parse.
func scan(body []byte) error {
	if err := wire.Scan(body); err != nil {
		return err
	}
	var batch []json.RawMessage
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) && json.Unmarshal(body, &batch) == nil && len(batch) > wire.MaxBatch {
		return errBatch
	}
	return nil
}

var errBatch = &runtime.Error{
	Kind: runtime.KindInvalid, Code: "batch_too_large", Detail: "A request may hold at most 32 messages",
}

// explain turns a plain-text refusal of the protocol's handler into an error answer in the server's format.
func explain(c *fiber.Ctx) error {
	status := c.Response().StatusCode()
	if status < 400 || !strings.HasPrefix(string(c.Response().Header.ContentType()), fiber.MIMETextPlain) {
		return nil
	}
	text := strings.TrimSpace(string(c.Response().Body()))
	if status >= 500 {
		return errors.New(text)
	}
	_, problem, _ := transports.Status(&runtime.Error{Detail: text, Code: "invalid_request"})
	return c.JSON(problem)
}

// brief limits how much of a request the protocol's errors repeat.
func brief(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		res, err := next(ctx, method, req)
		long, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok {
			return res, err
		}
		_, problem, _ := transports.Status(&runtime.Error{Detail: long.Message})
		short := &jsonrpc.Error{Code: long.Code, Message: problem.Detail, Data: long.Data}
		if len(short.Data) > maxData {
			short.Data = nil
		}
		return res, short
	}
}

// maxData limits an error's data.
const maxData = 512

func (t Transport) server() *sdk.Server {
	s := sdk.NewServer(
		&sdk.Implementation{Name: "baton", Title: "Baton", Version: t.Version},
		&sdk.ServerOptions{Instructions: instructions, Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}},
	)
	s.AddReceivingMiddleware(t.counted, brief)
	for _, tool := range tools() {
		s.AddTool(&tool.Tool, t.handler(&tool))
	}
	return s
}

const instructions = "Baton runs agents and workflows and keeps every event of them. start_agent_run starts a run and " +
	"returns at once; get_agent_run_snapshot shows what has come of it, and get_agent_run_events what happens after " +
	"that. A run whose status is WAITING and that has interrupts asks something: list_agent_runs shows what, resume_agent_run answers."
