package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// tool is a tool of the server.
type tool struct {
	server *Server
	name   string // its name on the server
	info   plugins.Info
}

var _ plugins.Tool = (*tool)(nil)

// unfit matches characters that names of plugins cannot have.
var unfit = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// maxName limits a plugin's name.
const maxName = 64

func (s *Server) tool(t *sdk.Tool) (*tool, error) {
	schema, err := json.Marshal(t.InputSchema)
	if err != nil || !strings.HasPrefix(string(schema), "{") {
		return nil, errors.New("its schema is not an object")
	}
	name := s.cfg.Name + "." + unfit.ReplaceAllString(t.Name, "_")
	if t.Name == "" || len(name) > maxName {
		return nil, errors.New("its name is empty or too long")
	}
	info := plugins.Info{
		Name: name, Description: t.Description, Timeout: s.cfg.Timeout, Parameters: schema,
		Approval: matches(s.cfg.Approval, t.Name),
	}
	if a := t.Annotations; a != nil {
		info.Idempotent = a.ReadOnlyHint || a.IdempotentHint
	}
	if info.Description == "" {
		info.Description = t.Title
	}
	return &tool{server: s, name: t.Name, info: info}, nil
}

// Info describes the tool as its server does.
func (t *tool) Info() plugins.Info { return t.info }

// Call makes the call. If ctx ends, it notifies the server.
func (t *tool) Call(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error) {
	conn, err := t.server.reach(ctx)
	if err != nil {
		return agui.ToolOutput{}, t.away(ctx, err)
	}
	res, sent, err := conn.call(ctx, t.name, call)
	if !sent && (errors.Is(err, sdk.ErrSessionMissing) || errors.Is(err, sdk.ErrConnectionClosed)) { // so it can be repeated
		if conn.child == nil {
			_ = conn.session.Close()
		}
		if conn, err = t.server.other(ctx, conn); err == nil {
			res, sent, err = conn.call(ctx, t.name, call)
		}
	}
	switch said, refused := refusal(err); {
	case err == nil:
		return output(res), nil
	case context.Cause(ctx) != nil:
		return agui.ToolOutput{}, context.Cause(ctx)
	case sent && refused:
		return agui.ToolOutput{}, &plugins.Error{Code: "tool_failed", Message: clip(t.server.shown(said), maxMessage)}
	}
	if conn != nil && conn.child == nil { // an endpoint that does not answer; the end of a program is noticed elsewhere
		_ = conn.session.Close()
	}
	return agui.ToolOutput{}, t.away(ctx, err)
}

// refusal returns the server's text for a call that it refused. For error codes that the SDK uses for the end of
// connections it returns only the text.
func refusal(err error) (said string, ok bool) {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e.Message, true
	}
	if !errors.Is(err, sdk.ErrConnectionClosed) {
		return "", false
	}
	_, said, _ = strings.Cut(err.Error(), `"tools/call": `)
	return said, true
}

// away returns the error of a call that got no response.
func (t *tool) away(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	t.server.log.Warn("tool call failed", "tool", t.name, "error", t.server.redact(err))
	return &plugins.Error{
		Code: "tool_unavailable", Message: fmt.Sprintf("The tool server %s is unavailable", t.server.cfg.Name), Retryable: true,
	}
}

// other waits for another connection than conn.
func (s *Server) other(ctx context.Context, conn *connection) (*connection, error) {
	for {
		s.mu.Lock()
		now, changed := s.conn, s.changed
		s.mu.Unlock()
		if now != conn {
			return s.reach(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// call makes a call and reports its progress. sent is false if the server cannot have received it.
func (c *connection) call(ctx context.Context, name string, call *plugins.Call) (res *sdk.CallToolResult, sent bool, err error) {
	params := &sdk.CallToolParams{Name: name, Arguments: call.Args}
	if len(call.Args) == 0 {
		params.Arguments = json.RawMessage("{}")
	}
	params.SetProgressToken(call.ID)
	if parent := plugins.TraceParent(ctx); parent != "" { // for transports without headers, such as stdio
		params.Meta["traceparent"] = parent
	}
	c.mu.Lock()
	c.progress[call.ID] = call.Report
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.progress, call.ID)
	}()
	ctx, d := withDelivery(ctx)
	res, err = c.session.CallTool(ctx, params)
	return res, d.sent.Load(), err
}

// progressed passes progress to its call.
func (c *connection) progressed(_ context.Context, req *sdk.ProgressNotificationClientRequest) {
	p := req.Params
	id, _ := p.ProgressToken.(string)
	c.mu.Lock()
	report := c.progress[id]
	c.mu.Unlock()
	if report == nil {
		return
	}
	fraction := 0.0
	if p.Total > 0 {
		fraction = p.Progress / p.Total
	}
	report(fraction, clip(p.Message, maxMessage))
}

// maxMessage limits an error or progress message, in bytes.
const maxMessage = 8 << 10

// clip cuts s after n bytes.
func clip(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
