package stream

import (
	"log/slog"
	"net"
	"sync"

	"github.com/valyala/fasthttp"
)

// guestKey is where a request keeps what Onward was told.
type guestKey struct{}

// Onward says how the requests are answered that follow a stream on req's connection, when another server than that of a
// Listener has taken it. Without it the connection ends with the stream, and a client that sends its next request at
// once gets no answer.
func Onward(req *fasthttp.RequestCtx, serve func(net.Conn)) { req.SetUserValue(guestKey{}, serve) }

// guest is a connection of another server, which closes it once the stream's handler has returned.
type guest struct {
	net.Conn
	once sync.Once
	over chan struct{} // closed with it
}

// UnsafeConn is the connection itself.
func (g *guest) UnsafeConn() net.Conn { return g.Conn }

// Close closes the connection.
func (g *guest) Close() error {
	err := g.Conn.Close()
	g.once.Do(func() { close(g.over) })
	return err
}

// entertain has serve answer the requests that follow on c, until it is closed.
func entertain(c net.Conn, serve func(net.Conn), log *slog.Logger) {
	if below, ok := c.(interface{ UnsafeConn() net.Conn }); ok { // what it has read ahead is nothing: see lookAway
		c = below.UnsafeConn()
	}
	g := &guest{Conn: c, over: make(chan struct{})}
	serve(NewListener(nil, log, serve).Adopt(g)) // returns early when another stream begins
	<-g.over
}
