package transports

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/transports/stream"
)

// visits are requests of another program's servers that are answered here.
type visits struct {
	conns *stream.Listener // holds their connections; it accepts none

	mu    sync.Mutex // guards the fields below
	n     int
	ended bool
	last  chan struct{} // closed when ended and no visit is left
}

func newVisits(conns *stream.Listener) *visits {
	return &visits{conns: conns, last: make(chan struct{})}
}

// enter reports whether a visit may begin; leave ends it.
func (v *visits) enter() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended {
		return false
	}
	v.n++
	return true
}

func (v *visits) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.n--; v.n == 0 && v.ended {
		close(v.last)
	}
}

// end prevents new visits and waits for the current ones, until ctx is done.
func (v *visits) end(ctx context.Context) error {
	v.mu.Lock()
	if !v.ended && v.n == 0 {
		close(v.last)
	}
	v.ended = true
	v.mu.Unlock()
	select {
	case <-v.last:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// visit is the server's end of a connection in memory, which carries one request of net/http.
type visit struct {
	net.Conn
	req *http.Request
}

// Gone reports whether the client has left.
func (v *visit) Gone() bool { return v.req.Context().Err() != nil }

// LocalAddr is the address at which the request came in.
func (v *visit) LocalAddr() net.Addr {
	if addr, ok := v.req.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		return addr
	}
	return v.Conn.LocalAddr()
}

// RemoteAddr is the client's address.
func (v *visit) RemoteAddr() net.Addr {
	if addr, err := netip.ParseAddrPort(v.req.RemoteAddr); err == nil {
		return net.TCPAddrFromAddrPort(addr)
	}
	return v.Conn.RemoteAddr()
}

// original returns the request as net/http received it, without its body: net/http's own, or a copy of c's whose context has the
// Locals of the program's handlers.
func original(c *fiber.Ctx) (*http.Request, error) {
	if v, ok := below(c).(*visit); ok {
		r := v.req.WithContext(v.req.Context())
		r.Body = http.NoBody
		return r, nil
	}
	target := string(c.Context().URI().PathOriginal()) // as the routes see it: Request.RequestURI returns it unescaped
	if query := c.Context().URI().QueryString(); len(query) > 0 {
		target += "?" + string(query)
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, err
	}
	state := c.Context().TLSConnectionState() // a program's own server may have it
	if own := stream.Own(c.Context().Conn()); own != nil {
		state = own.TLS()
	}
	r := &http.Request{
		Method: c.Method(), URL: u, RequestURI: target, Host: string(c.Request().Header.Host()),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, TLS: state, RemoteAddr: c.Context().RemoteAddr().String(),
	}
	for key, value := range c.Request().Header.All() {
		r.Header.Add(string(key), string(value))
	}
	r.Header.Del("Host")
	return r.WithContext(c.Context()), nil
}

// below is the connection that c came in on, without the server's own around it.
func below(c *fiber.Ctx) net.Conn {
	conn := c.Context().Conn()
	if own := stream.Own(conn); own != nil {
		return own.Below()
	}
	return conn
}

// door passes requests to the server, each on its own connection in memory, so that the connection identifies the request.
type door struct{ s *Server }

// taken is the context key of net/http's request in the request that is passed on.
type taken struct{}

// RoundTrip answers r.
func (d door) RoundTrip(r *http.Request) (*http.Response, error) {
	client, server := net.Pipe()
	own := d.s.visits.conns.Adopt(&visit{server, r.Context().Value(taken{}).(*http.Request)})
	go func() { _ = d.s.app.Server().ServeConn(own) }() // ends with the connection
	unread := make(chan error, 1)
	go func() { // likewise; the answer reports an invalid request, and this error an unreadable one
		if err := r.Write(client); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			unread <- err
			_ = client.Close()
		}
	}()
	stop := context.AfterFunc(r.Context(), func() { _ = client.Close() })
	back := &answering{Conn: client, r: bufio.NewReaderSize(client, 4<<10), stop: stop}
	res, err := http.ReadResponse(back.r, r)
	if err != nil {
		_ = back.Close()
		select {
		case why := <-unread:
			err = why
		default:
		}
		return nil, err
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		res.Body = back
	} else {
		res.Body = body{res.Body, back}
	}
	return res, nil
}

// answering is the client's end of a visit's connection.
type answering struct {
	net.Conn
	r    *bufio.Reader
	stop func() bool
}

func (a *answering) Read(p []byte) (int, error) { return a.r.Read(p) }

// Close ends the visit.
func (a *answering) Close() error {
	a.stop()
	return a.Conn.Close()
}

// WriteTo and ReadFrom are here for the sake of their small buffers: a socket may be idle for long.

// WriteTo copies the server's answer.
func (a *answering) WriteTo(w io.Writer) (int64, error) { return a.r.WriteTo(onlyWriter{w}) }

// ReadFrom passes on the client's bytes.
func (a *answering) ReadFrom(r io.Reader) (int64, error) {
	return io.CopyBuffer(onlyWriter{a.Conn}, onlyReader{r}, make([]byte, 2<<10))
}

type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

// body is an answer's body; closing it ends the visit.
type body struct {
	io.ReadCloser
	conn *answering
}

func (b body) Close() error { return b.conn.Close() }

// deadlineWriter writes an answer with a deadline per write, whatever the net/http server's limit for the whole answer, as
// streams last.
type deadlineWriter struct {
	http.ResponseWriter
	ctl     *http.ResponseController
	timeout time.Duration
}

func (p *deadlineWriter) Write(b []byte) (int, error) {
	_ = p.ctl.SetWriteDeadline(time.Now().Add(p.timeout)) // an error means that there is no deadline to change
	return p.ResponseWriter.Write(b)
}

func (p *deadlineWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Hijack takes over the connection for a WebSocket.
func (p *deadlineWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := p.ctl.Hijack()
	if err != nil {
		return nil, nil, err
	}
	_ = c.SetDeadline(time.Time{})
	return &patientConn{c, p.timeout}, rw, nil
}

type patientConn struct {
	net.Conn
	timeout time.Duration
}

func (p *patientConn) Write(b []byte) (int, error) {
	_ = p.SetWriteDeadline(time.Now().Add(p.timeout))
	return p.Conn.Write(b)
}

// buffers are those of answers in progress. They are small, as streams have their own.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[4 << 10]byte); ok {
		return p[:]
	}
	return make([]byte, 4<<10)
}

func (b *buffers) Put(p []byte) { b.pool.Put((*[4 << 10]byte)(p)) }
