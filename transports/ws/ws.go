// Package ws streams the events of runs over WebSocket: a thread's log as in server-sent events, one run per socket for AG-UI
// clients, and many threads on one socket, with commands.
//
// Errors of a request's credential or Origin are answered in HTTP before the upgrade. All others close the socket: with
// code 4000 and the HTTP status and detail. A complete socket closes with 1000, one of a stopping server with 1001, a too large
// message with 1009, a client that does not read with 4008, and an ended credential with 4401: the client may continue after
// its last id.
//
// The server's streams write frames in batches, pings, and the last frame to a client that does not read. The WebSocket
// library performs the handshake, reads, and writes the other control frames: pongs and closes.
package ws

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"log/slog"
	"strings"

	"github.com/gofiber/contrib/websocket"
	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/stream"
)

// Transport serves a runtime's runs over WebSockets. Its handlers return errors as they are: the server turns
// them into answers.
type Transport struct {
	Runtime *runtime.Runtime
	Streams *transports.Streams // the same as the server has
	Log     *slog.Logger        // default slog.Default
	Input   int64               // bytes of a message that may start a run, default 32 MiB
	Body    int64               // of one that may not, default 2 MiB

	// KeepEdits has messages that leave a thread before its end rewind nothing, on the sockets of AG-UI's clients.
	KeepEdits bool
}

// Routes are the sockets. An unknown project is answered after the upgrade, like other errors.
func (t Transport) Routes() []transports.Route {
	t.Log = cmp.Or(t.Log, slog.Default())
	t.Input = cmp.Or(t.Input, 32<<20)
	t.Body = cmp.Or(t.Body, 2<<20)
	return []transports.Route{
		{Method: fiber.MethodGet, Path: "/api/v1/agent/runs/:thread_id/ws", Known: upgrading(t.mirror), Late: true, Stream: true},
		{Method: fiber.MethodGet, Path: "/api/v1/agui/:agent/ws", Known: upgrading(t.run), Late: true, Stream: true},
		{Method: fiber.MethodGet, Path: "/api/v1/ws", Known: upgrading(t.many), Late: true, Stream: true},
	}
}

// upgrading refuses requests that do not ask for a WebSocket, or in a form that the library does not accept.
func upgrading(h auth.Handler) auth.Handler {
	return func(c *fiber.Ctx, who runtime.Caller) error {
		if err := upgradable(c); err != nil {
			return err
		}
		return h(c, who)
	}
}

func upgradable(c *fiber.Ctx) error {
	if !websocket.IsWebSocketUpgrade(c) || c.Method() != fiber.MethodGet || !c.Request().Header.IsHTTP11() ||
		c.Get(versionHeader) != version {
		c.Set(fiber.HeaderUpgrade, "websocket")
		c.Set(versionHeader, version)
		return fiber.ErrUpgradeRequired
	}
	if key, err := base64.StdEncoding.DecodeString(c.Get("Sec-WebSocket-Key")); err != nil || len(key) != 16 {
		return errKey
	}
	return nil
}

// The version of the protocol, and its header.
const (
	version       = "13"
	versionHeader = "Sec-WebSocket-Version"
)

var errKey = &runtime.Error{
	Kind: runtime.KindInvalid, Code: "invalid_request", Detail: "Sec-WebSocket-Key must be 16 bytes in base64",
}

// conversation defines a socket.
type conversation struct {
	protocol string // the chosen subprotocol, "" for none
	limit    int64  // bytes of a message from the client
	// take is called with each client message, by one goroutine, and reports whether it keeps the message. Nil ignores messages.
	take func(ctx context.Context, s *socket, msg message) (keeps bool)
	// talk writes to the socket until it is to be closed, for the reason it returns.
	talk func(ctx context.Context, s *socket) error
}

// hold upgrades c to a socket for a conversation, and returns at once.
func (t Transport) hold(c *fiber.Ctx, conv conversation) error {
	if err := t.Streams.Reserve(c); err != nil {
		return err
	}
	cfg := websocket.Config{
		Origins:         []string{"*"}, // the server has judged it
		ReadBufferSize:  readBuffer,
		WriteBufferPool: unused{},
		RecoverHandler:  func(*websocket.Conn) {}, // Guard does
	}
	if conv.protocol != "" {
		c.Set(protocolHeader, conv.protocol)
	}
	req, holder, names := c.Context(), transports.HolderOf(c), transports.Names(c)
	return websocket.New(func(pooled *websocket.Conn) {
		s := &socket{conn: pooled.Conn, log: t.Log, budget: t.Streams.Budget}
		s.conn.SetCloseHandler(s.answerClose)
		t.Streams.Guard(func() {
			t.Streams.Attach(holder, req, s.conn.NetConn(), stream.Duplex{Ping: ping, Control: control, Read: s.latest.add}, func(ctx context.Context, w *stream.Writer) {
				s.w = w
				w.Describe(names...)
				s.conn.SetPongHandler(func(string) error {
					w.Alive()
					return nil
				})
				s.serve(ctx, t.Streams, t.Streams.Owner(holder), &conv)
			})
		})
	}, cfg)(c)
}

// refuse upgrades c to a socket that closes with an error. It ignores the client's messages.
func (t Transport) refuse(c *fiber.Ctx, protocol string, err error) error {
	return t.hold(c, conversation{protocol: protocol, limit: t.Input, talk: func(context.Context, *socket) error { return err }})
}

// readBuffer is small: frames larger than it are read past it.
const readBuffer = 256

// unused is the library's pool of write buffers, which it never needs.
type unused struct{}

func (unused) Get() any { return nil }
func (unused) Put(any)  {}

const protocolHeader = "Sec-WebSocket-Protocol"

// protocol returns the first subprotocol that both the client and the route support, "" for none.
func protocol(c *fiber.Ctx, spoken ...string) string {
	offered := bytes.Join(c.Request().Header.PeekAll(protocolHeader), []byte(","))
	for name := range strings.SplitSeq(string(offered), ",") {
		for _, s := range spoken {
			if strings.TrimSpace(name) == s {
				return s
			}
		}
	}
	return ""
}
