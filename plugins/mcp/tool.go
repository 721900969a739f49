package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// tool is a tool of the server.
type tool struct {
	server *Server
	name   string // its name on the server
	info   plugins.Info
	tasks  string // whether its calls can be tasks: required, optional, or else
}

var _ plugins.Tool = (*tool)(nil)

// wireTool is a tool with members of any type.
type wireTool struct {
	Name        string          `json:"name"`
	InputSchema json.RawMessage `json:"inputSchema"`

	Title       json.RawMessage `json:"title,omitempty"`
	Description json.RawMessage `json:"description,omitempty"`
	Annotations json.RawMessage `json:"annotations,omitempty"`
	Execution   json.RawMessage `json:"execution,omitempty"`
}

// toolsOf returns the tools of a page and the cursor of the next one.
func toolsOf(raw json.RawMessage) (tools []wireTool, next string) {
	var page struct{ Tools, NextCursor json.RawMessage }
	if json.Unmarshal(raw, &page) != nil {
		page.Tools = raw
	}
	tools = []wireTool{}
	for _, one := range elements(page.Tools) {
		var t struct {
			wireTool
			Name json.RawMessage `json:"name"`
		}
		if json.Unmarshal(one, &t) != nil {
			continue
		}
		t.wireTool.Name = word(t.Name)
		if len(t.InputSchema) == 0 || t.InputSchema[0] != '{' {
			t.InputSchema = json.RawMessage(`{"type":"object"}`)
		}
		tools = append(tools, t.wireTool)
	}
	return tools, word(page.NextCursor)
}

// tool returns a tool of the server, which does not have its name yet.
func (s *Server) tool(t *wireTool) *tool {
	var hints struct{ ReadOnlyHint, IdempotentHint json.RawMessage }
	_ = json.Unmarshal(t.Annotations, &hints)
	var execution struct{ TaskSupport json.RawMessage }
	_ = json.Unmarshal(t.Execution, &execution)
	return &tool{server: s, name: t.Name, tasks: word(execution.TaskSupport), info: plugins.Info{
		Description: cmp.Or(word(t.Description), word(t.Title)), Timeout: s.cfg.Timeout, Parameters: t.InputSchema,
		Approval: matches(s.cfg.Approval, t.Name), Approver: s.cfg.Approver, Idempotent: truth(hints.ReadOnlyHint) || truth(hints.IdempotentHint),
	}}
}

// Info describes the tool as its server does.
func (t *tool) Info() plugins.Info { return t.info }

// Call makes the call. If ctx ends, it notifies the server.
func (t *tool) Call(ctx context.Context, call *plugins.Call) (_ agui.ToolOutput, err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	a := &asker{call: call, tool: t, end: end, heard: map[string]bool{}, memory: newMemory()}
	t.server.tasks.enter(a)
	defer func() { err = t.settle(ctx, a, err) }()
	if out, ok, err := t.resumed(ctx, a); ok || err != nil {
		return out, err
	}
	for range maxRounds {
		conn, x, err := t.request(ctx, func(c *connection) (*exchange, error) { return c.call(ctx, t, a) })
		if conn == nil {
			return agui.ToolOutput{}, t.away(ctx, err)
		}
		result, refused, _ := x.outcome()
		var asks map[string]json.RawMessage
		switch {
		case context.Cause(ctx) != nil:
			return agui.ToolOutput{}, context.Cause(ctx)
		case a.waiting():
			return agui.ToolOutput{}, plugins.ErrWaiting
		case result != nil:
			t.server.doubt(conn, nil)
			if task := startedTask(result, x.task != nil); task != nil {
				return t.begun(ctx, a, task)
			}
			switch asks = a.asksFor(result); {
			case asks == nil:
				return output(result, a), nil
			case len(asks) == 0:
				return agui.ToolOutput{}, &plugins.Error{Code: "tool_unavailable", Message: fmt.Sprintf("The tool server %s is busy", t.server.cfg.Name), Retryable: true}
			}
			a.responses = a.fulfil(asks)
		case refused == nil:
			conn.leave() // an endpoint that does not answer; the end of a program is noticed elsewhere
			return agui.ToolOutput{}, t.away(ctx, err)
		case !a.opened(refused) && !a.waiting():
			return agui.ToolOutput{}, t.refused(conn, refused, a)
		}
		if a.waiting() {
			return agui.ToolOutput{}, plugins.ErrWaiting
		}
		if told, _ := a.declined(); told != "" {
			return agui.ToolOutput{}, &plugins.Error{Code: codeDeclined, Message: told}
		}
	}
	return agui.ToolOutput{}, &plugins.Error{Code: "tool_failed", Message: "The tool asks for input again and again"}
}

// maxRounds limits the requests of one call.
const maxRounds = 20

// request sends the call's next request, once more if the server has not executed it. Without a connection it fails.
func (t *tool) request(ctx context.Context, send func(*connection) (*exchange, error)) (*connection, *exchange, error) {
	conn, err := t.server.reach(ctx)
	if err != nil {
		return nil, nil, err
	}
	x, err := send(conn)
	if !t.repeats(x, err) {
		return conn, x, err
	}
	conn.leave()
	if conn, err = t.server.other(ctx, conn); err != nil {
		return nil, nil, err
	}
	x, err = send(conn)
	return conn, x, err
}

// repeats reports whether a call can be made once more on another connection, because this one has ended and the server has
// not executed the call.
func (t *tool) repeats(x *exchange, err error) bool {
	_, refused, sent := x.outcome()
	if refused != nil {
		return refused.gone && refused.unexecuted
	}
	return !sent && (errors.Is(err, sdk.ErrSessionMissing) || errors.Is(err, sdk.ErrConnectionClosed))
}

// refused returns the error of a call that the server has refused.
func (t *tool) refused(conn *connection, r *refusal, a *asker) error {
	said := t.server.secrets.Hide(r.Error())
	told, _ := a.declined()
	switch {
	case told != "":
		return &plugins.Error{Code: codeDeclined, Message: clip(told+"\n"+said, maxMessage)}
	case r.status == 0:
		return &plugins.Error{Code: "tool_failed", Message: cmp.Or(clip(said, maxMessage), "The tool failed and does not say why")}
	}
	said = fmt.Sprintf("The tool server %s %s", t.server.cfg.Name, said)
	t.server.log.Warn("tool call failed", "tool", t.name, "error", said)
	t.server.doubt(conn, errors.New(said))
	if r.gone {
		conn.leave()
	}
	e := &plugins.Error{Code: "tool_failed", Message: clip(said, maxMessage)}
	switch {
	case r.status == http.StatusUnauthorized || r.status == http.StatusForbidden:
		e.Code = "tool_unauthorized"
	case r.status == http.StatusTooManyRequests:
		e.Code, e.Retryable = "rate_limited", true
	case r.status >= http.StatusInternalServerError:
		e.Code, e.Retryable = "tool_unavailable", true
	}
	return e
}

// away returns the error of a call that got no response.
func (t *tool) away(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	err = t.server.redact(err)
	t.server.log.Warn("tool call failed", "tool", t.name, "error", err)
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

// call makes a call and reports its progress. The error is that of an exchange without an outcome.
func (c *connection) call(ctx context.Context, t *tool, a *asker) (*exchange, error) {
	call := a.call
	params := &sdk.CallToolParams{Name: t.name, Arguments: call.Args, InputResponses: a.responses, RequestState: a.state}
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
	ctx, x := withExchange(ctx)
	x.asker, x.task = a, t.asTask(ctx, c)
	_, err := c.session.CallTool(ctx, params)
	c.tap.leave(x)
	return x, err
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
