package openapi

import (
	_ "embed"

	"github.com/google/jsonschema-go/jsonschema"
)

//go:embed about.md
var about string

// describe makes the document.
func describe(version string, metrics bool) (document, error) {
	d := &describer{
		doc: document{
			OpenAPI: "3.1.1",
			Info: info{
				Title: "Baton", Version: version, Summary: "Agent orchestration with live " +
					"event streams", Description: about,
				License: license{"Apache License 2.0", "Apache-2.0"},
			},
			Servers:  []server{{"/", "This server"}},
			Security: []security{{}, {"bearer": {}}},
		},
		schemas: newSchemas(),
	}
	d.models()
	d.requests()
	d.events()
	d.streams()
	d.agui()
	d.runs()
	d.threads()
	d.attachments()
	d.admin()
	d.keys()
	d.offers()
	d.monitor()
	d.sockets()
	d.tickets()
	d.log()
	d.mcp()
	d.copilotkit()
	d.operations(metrics)
	d.doc.Components = components{Schemas: d.schemas.named, Responses: refusals(), SecuritySchemes: schemes}
	return d.doc, d.schemas.err()
}

// schemes are the kinds of credentials. A server without accounts requires none.
var schemes = map[string]securityScheme{
	"bearer": {
		Type: "http", Scheme: "bearer", Description: "An API key or a JSON Web Token, depending on the server's configuration. Programs that embed " +
			"Baton may require other credentials.",
	},
	"ticket": {
		Type: "apiKey", In: "query", Name: "ticket", Description: "A ticket from `POST /api/v1/stream-tickets`, for clients that cannot send headers.",
	},
}

// ticketed is the security of streams.
var ticketed = &[]security{{}, {"bearer": {}}, {"ticket": {}}}

// nobody is the security of public operations.
var nobody = &[]security{}

// refusals are the answers that many operations give.
func refusals() map[string]*answer {
	all := map[string]*answer{
		"Invalid": refuse("Invalid request; `detail` says what is wrong.", "invalid_request", "since must be a time like 2024-01-15T10:00:00Z",
			"invalid_json", "The request body is not valid JSON",
			"invalid_limit", "limit must be a number from 1 to 500",
			"invalid_cursor", "The cursor is not one that this list has given",
			"invalid_name", "A threadId is needed; threadId and runId must be 1 to 200 characters without control characters"),
		"Unauthorized": refuse("The credential is missing or wrong, has expired or was revoked.",
			"unauthorized", "A credential is needed: send it as Authorization: Bearer …",
			"credential_ended", "The credential has expired or was revoked"),
		"NotFound":        refuse("The resource does not exist or is not visible to you.", "not_found", "Agent run not found"),
		"ThreadNotFound":  refuse("The thread does not exist or is not visible to you.", "not_found", "Thread not found"),
		"ProjectNotFound": refuse("The project does not exist, or you are not a member.", "not_found", "Project not found"),
		"AgentNotFound":   refuse("The agent or workflow does not exist.", "unknown_agent", `There is no agent or workflow "nobody"`),
		"Forbidden": refuse("Your role does not permit this request, or it comes from a web page of a foreign origin.",
			"forbidden", "Web pages of this Origin are not admitted; name it in the setting origins"),
		"TooLarge": refuse("The request body is too large.", "body_too_large", "The request's body is too large"),
		"UnsupportedMediaType": refuse("The body is not JSON, or it is compressed.", "unsupported_media_type",
			"A request's body must have the Content-Type application/json"),
		"Misdirected": refuse("The Host header is not a name of this server.", "foreign_host",
			"This server does not answer to that Host; name it in the setting hosts"),
		"Overloaded":  refuse("A queue is full, or a limit or budget is reached. Retry after `Retry-After` seconds.", "queue_full", "Too many runs are queued; try again later"),
		"Unavailable": refuse("The server is starting, stopping or overloaded, or its database is unavailable.", "stopping", "The server is stopping; try again shortly"),
		"Internal":    refuse("Internal error. The server's log has details under the same `requestId`.", "internal", "internal error"),
	}
	again := map[string]header{"Retry-After": {
		Description: "Seconds to wait before a retry.", Schema: &jsonschema.Schema{Type: "integer", Minimum: new(1.0)},
	}}
	all["Unauthorized"].Headers = map[string]header{"WWW-Authenticate": {Description: "`Bearer`.", Schema: text("")}}
	all["Overloaded"].Headers, all["Unavailable"].Headers = again, again
	return all
}
