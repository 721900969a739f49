package openapi

import "github.com/batonrun/baton/transports/ticket"

// tickets describes the route of tickets, for clients that cannot send a header.
func (d *describer) tickets() {
	d.area("Tickets", "Open streams from browsers, whose EventSource and WebSocket send no headers.")
	infer[ticket.Issued](&d.schemas, "StreamTicket", "What opens a stream.",
		says("ticket", "The value of the parameter `ticket`. It is a secret."),
		says("expiresAt", "When it opens nothing more, and the streams that it has opened end."))
	d.add("POST /api/v1/stream-tickets", operation{
		ID: "createStreamTicket", Summary: "Get a ticket for a stream or a socket",
		Description: "It opens GETs of that path alone, in that project, as whoever has asked: `?ticket=`. EventSource may reconnect with it. " +
			"It lasts for 12 hours, but not for longer than the credential that it was asked for with.",
		Parameters: []parameter{projectParam},
		Body: accept(object("",
			must("path", text("The path of the stream or socket. Of a query only `projectId` counts.")),
			may("projectId", text("The project. Absent: the one that the request means."))), "ticket"),
		Answers: answers{
			"201": reply("The ticket.", ref("StreamTicket"), "ticket-issued"),
			"400": refuse("The path is none of a stream.", "invalid_request", "The member path must be that of a stream or a socket of this server, such as /api/v1/events",
				"invalid_json", "The request body is not valid JSON"),
		},
	})
}
