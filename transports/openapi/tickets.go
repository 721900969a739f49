package openapi

import "github.com/batonrun/baton/transports/ticket"

// tickets describes the route of tickets, for clients that cannot send a header.
func (d *describer) tickets() {
	d.area("Tickets", "Tickets for browsers, whose EventSource and WebSocket cannot send headers.")
	infer[ticket.Issued](&d.schemas, "StreamTicket")
	d.add("POST /api/v1/stream-tickets", operation{
		ID: "createStreamTicket", Summary: "Create a stream ticket",
		Description: "The ticket authorizes GET requests for one path in one project, as the caller, with `?ticket=`. EventSource can reconnect with " +
			"it. It is valid for 12 hours, but never longer than the credential of this request.",
		Parameters: []parameter{projectParam},
		Body: accept(object("",
			must("path", text("Path of the stream or socket. Of its query, only `projectId` counts.")),
			may("projectId", text("The project. Default: the project of the request."))), "ticket"),
		Answers: answers{
			"201": reply("The ticket.", ref("StreamTicket"), "ticket-issued"),
			"400": refuse("The path does not belong to a stream or socket.", "invalid_request", "The member path must be that of a stream or a socket of this server, such as /api/v1/events",
				"invalid_json", "The request body is not valid JSON"),
		},
	})
}
