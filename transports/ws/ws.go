// Package ws is the event stream of runs over WebSocket: a thread's log, as the stream of server-sent events
// shows it; one run per socket for clients of AG-UI; and many threads on one socket, with commands.
//
// What is wrong with a request's credential or Origin is said before the upgrade, in HTTP. All else closes the
// socket: with 4000 and the status that HTTP would have had, and a sentence. A socket that ends as it should is
// closed with 1000, by a server that stops with 1001, for a message that is too big with 1009, with 4008 when
// its client takes nothing, and with 4401 when its credential ends: it goes on behind the last id it has got.
//
// Frames are written by the server's streams, whole batches at a time, and so are pings and the last word to a client
// that takes nothing. The WebSocket library does the handshake, reads, and writes the other control frames: pongs and
// the close.
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

// Routes are the sockets. What is wrong with the project that one names it says after the upgrade, as all else.
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

// upgrading refuses requests that do not ask for a WebSocket, or not as the library takes it.
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

// The version of the protocol, and where it stands.
const (
	version       = "13"
	versionHeader = "Sec-WebSocket-Version"
)

var errKey = &runtime.Error{
	Kind: runtime.KindInvalid, Code: "invalid_request", Detail: "Sec-WebSocket-Key must be 16 bytes in base64",
}

// conversation is what happens on a socket.
type conversation struct {
	protocol string // of those that the client offers, "" for none
	limit    int64  // bytes of a message from the client
	// take is called with each message of the client, by one goroutine, and reports whether it keeps it. Nil ignores them.
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
				w.About(names...)
				s.conn.SetPongHandler(func(string) error {
					w.Heard()
					return nil
				})
				s.serve(ctx, t.Streams, t.Streams.Owner(holder), &conv)
			})
		})
	}, cfg)(c)
}

// refuse upgrades c to a socket that is closed with an error. What its client says meanwhile nobody takes.
func (t Transport) refuse(c *fiber.Ctx, protocol string, err error) error {
	return t.hold(c, conversation{protocol: protocol, limit: t.Input, talk: func(context.Context, *socket) error { return err }})
}

// readBuffer is small: frames larger than it are read past it.
const readBuffer = 256

// unused is where the library would get buffers for messages, of which it writes none.
type unused struct{}

func (unused) Get() any { return nil }
func (unused) Put(any)  {}

const protocolHeader = "Sec-WebSocket-Protocol"

// protocol returns the first subprotocol that the client offers and the route speaks, "" for none.
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
