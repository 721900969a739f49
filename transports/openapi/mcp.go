package openapi

import "github.com/google/jsonschema-go/jsonschema"

// mcp describes the endpoint for MCP clients.
func (d *describer) mcp() {
	d.area("MCP", "The Model Context Protocol, streamable HTTP without sessions. Tools: `list_agents`, "+
		"`start_agent_run`, `append_agent_message`, "+
		"`resume_agent_run`, `cancel_agent_run`, `list_agent_runs`, `get_agent_run_events`, "+
		"`get_agent_run_snapshot`; `tools/list` has their schemas.")
	version := must("jsonrpc", constant("2.0"))
	id := either("", text(""), &jsonschema.Schema{Type: "integer"})
	d.schemas.name("MCPRequest", object("A JSON-RPC 2.0 request, or a notification when it has no id.",
		version, may("id", id), must("method", text("")), may("params", object(""))))
	d.schemas.name("MCPResponse", object("A JSON-RPC 2.0 response.",
		version, must("id", orNull(id)), may("result", object("")),
		may("error", object("",
			must("code", &jsonschema.Schema{Type: "integer"}), must("message", text("")), may("data", anything(""))))))
	d.add("POST /mcp", operation{
		ID: "mcp", Summary: "Send a message of MCP",
		Parameters: []parameter{
			inHeader("Accept", text("`application/json, text/event-stream`: MCP clients send both.")).required(),
			inHeader("MCP-Protocol-Version", text("The protocol version that was agreed on.")), projectParam,
		},
		Body: accept(ref("MCPRequest"),
			"mcp-initialize",
			"mcp-tools",
			"mcp-start"),
		Answers: answers{
			"200": reply("The response.", ref("MCPResponse"), "mcp-answer"),
			"202": nothing("A notification was taken."),
			"400": refuse("The body is no message of MCP.", "invalid_request", `JSON RPC not handled: "nothing" unsupported`),
		},
	})
}
