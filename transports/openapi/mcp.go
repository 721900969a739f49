package openapi

import "github.com/google/jsonschema-go/jsonschema"

// mcp describes the endpoint for MCP clients.
func (d *describer) mcp() {
	d.area("MCP", "The Model Context Protocol over streamable HTTP, without sessions. Tools: `list_agents`, `start_agent_run`, `append_agent_message`, "+
		"`resume_agent_run`, `cancel_agent_run`, `send_event`, `list_agent_runs`, `get_agent_run_events`, `get_agent_run_snapshot`. `tools/list` returns their "+
		"schemas.")
	version := must("jsonrpc", constant("2.0"))
	id := either("", text(""), &jsonschema.Schema{Type: "integer"})
	d.schemas.name("MCPRequest", object("A JSON-RPC 2.0 request, or a notification when it has no id.",
		version, may("id", id), must("method", text("The method.")), may("params", object(""))))
	d.schemas.name("MCPResponse", object("A JSON-RPC 2.0 response.",
		version, must("id", orNull(id)), may("result", object("")),
		may("error", object("",
			must("code", &jsonschema.Schema{Type: "integer"}), must("message", text("The error, for people.")), may("data", anything(""))))))
	d.add("POST /mcp", operation{
		ID: "mcp", Summary: "Send an MCP message",
		Parameters: []parameter{
			inHeader("Accept", text("Must accept both: `application/json, text/event-stream`.")).required(),
			inHeader("MCP-Protocol-Version", text("The negotiated protocol version.")), projectParam,
		},
		Body: accept(ref("MCPRequest"),
			"mcp-initialize",
			"mcp-tools",
			"mcp-start"),
		Answers: answers{
			"200": reply("The response.", ref("MCPResponse"), "mcp-answer"),
			"202": nothing("The notification was accepted."),
			"400": refuse("The body is not a valid MCP message.", "invalid_request", `JSON RPC not handled: "nothing" unsupported`),
		},
	})
}
