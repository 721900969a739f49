package stream

import (
	"cmp"
	"crypto/tls"
	"errors"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// ListenerConfig configures a Listener. Zero fields mean the default.
type ListenerConfig struct {
	Log *slog.Logger

	// Serve answers the requests of a connection whose stream has ended. If it is nil, a stream's connection carries no more requests.
	Serve func(net.Conn)
	Idle  time.Duration // for which a connection's first request, or the one behind a stream, is awaited; 0 for fasthttp's limits

	TLS       *tls.Config   // makes the connections use TLS; nil for none
	Handshake time.Duration // for the whole of its handshake, default 10 s

	Conns   int                   // open at a time, default as many as the process has descriptors for
	PerPeer int                   // of them from one address, default half
	Exempt  func(netip.Addr) bool // addresses without the limit PerPeer, default none

	Message time.Duration // for the whole of a body, default 1 min
	Slack   time.Duration // for a part of a body or of an answer that does not get on, default 10 s
	Rate    int           // bytes per second that clients must send and take on the average, default 4 KiB
}

func (c ListenerConfig) withDefaults() ListenerConfig {
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Conns = cmp.Or(c.Conns, most(descriptors()))
	c.PerPeer = cmp.Or(c.PerPeer, max(c.Conns/2, 1))
	c.Handshake = cmp.Or(c.Handshake, 10*time.Second)
	c.Message = cmp.Or(c.Message, time.Minute)
	c.Slack = cmp.Or(c.Slack, 10*time.Second)
	c.Rate = cmp.Or(c.Rate, 4<<10)
	if c.Exempt == nil {
		c.Exempt = func(netip.Addr) bool { return false }
	}
	return c
}

// Config returns the configuration with its defaults.
func (l *Listener) Config() ListenerConfig { return l.cfg }

// most is the number of connections for a process with that many descriptors. The rest is for the database, plugins and
// outgoing calls.
func most(descriptors int) int { return max(descriptors-max(descriptors/8, 64), descriptors/2, 1) }

// lasting is how long n bytes may take.
func (c *ListenerConfig) lasting(n int) time.Duration {
	return c.Slack + time.Duration(float64(n)/float64(c.Rate)*float64(time.Second))
}

// parcel is the size of one write: half of the bytes that the slowest permitted client reads within Slack.
func (c *ListenerConfig) parcel() int {
	return min(max(int(float64(c.Rate)*c.Slack.Seconds()/2), 1<<10), 256<<10)
}

// until is when more must have come of a message that began then, and of which got bytes are here.
func (c *ListenerConfig) until(began time.Time, got int) time.Time {
	return earlier(began.Add(min(c.lasting(got), c.Message)), time.Now().Add(c.Slack))
}

// Listener is a net.Listener that survives a shortage of descriptors, at which fasthttp would stop serving for good, and that
// limits the number of connections: it closes idle ones to make room. Its connections can linger and can become streams.
type Listener struct {
	net.Listener
	cfg ListenerConfig

	mu    sync.Mutex                          // guards the fields below
	open  map[netip.Prefix]map[*Conn]struct{} // its connections by client address or network
	n     int                                 // how many there are
	until time.Time                           // by which all must have been read; zero until Hurry
	told  time.Time                           // when it was last logged that there are too many
}

// NewListener returns a listener for the connections that come in on ln.
func NewListener(ln net.Listener, cfg ListenerConfig) *Listener {
	return &Listener{Listener: ln, cfg: cfg.withDefaults(), open: make(map[netip.Prefix]map[*Conn]struct{})}
}

// Accept waits for the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	for wait := 5 * time.Millisecond; ; {
		c, err := l.Listener.Accept()
		switch {
		case err == nil:
			wait = 5 * time.Millisecond
			if own := l.admit(c); own != nil {
				return own, nil
			}
		case shortage(err):
			l.cfg.Log.Warn("cannot accept a connection", "error", err, "retry", wait.String(), "help", "raise the limit of open files: ulimit -n, LimitNOFILE in systemd")
			<-time.After(wait)
			wait = min(2*wait, time.Second)
		default:
			return nil, err
		}
	}
}

// Adopt makes c, which came in another way, one of the listener's connections.
func (l *Listener) Adopt(c net.Conn) net.Conn {
	return l.add(&Conn{Conn: c, ln: l})
}

// admit adds c to the listener's connections, and closes an idle one if there are too many. It returns nil if it had to close
// c.
func (l *Listener) admit(c net.Conn) *Conn {
	from := origin(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	room := true
	if len(l.open[from]) >= l.cfg.PerPeer && !l.cfg.Exempt(address(c)) { // checked first: a refusal for this limit must not close another client's connection
		room = l.evict(maps.Keys(l.open[from]))
	}
	if room && l.n >= l.cfg.Conns {
		room = l.evict(maps.Keys(l.open[l.largest()])) || l.evict(l.all)
	}
	if !room {
		l.refuse(c, from)
		return nil
	}
	own := &Conn{Conn: c, ln: l, peer: from}
	own.awaitsFirst.Store(l.cfg.Idle > 0)
	if l.cfg.TLS != nil {
		own.Conn = newSecured(c, &l.cfg)
	}
	l.insert(own)
	return own
}

// largest returns the address that has the most connections: a client with few of them does not pay for one that has many.
// l.mu is held.
func (l *Listener) largest() (from netip.Prefix) {
	for addr, conns := range l.open {
		if len(conns) > len(l.open[from]) {
			from = addr
		}
	}
	return from
}

// all are the connections in no order. l.mu is held.
func (l *Listener) all(yield func(*Conn) bool) {
	for _, some := range l.open {
		for c := range some {
			if !yield(c) {
				return
			}
		}
	}
}

// sample is among how many connections one is chosen that is closed.
const sample = 64

// evict closes the longest idle connection among a sample of some, and reports false if none is idle. l.mu is held.
func (l *Listener) evict(some iter.Seq[*Conn]) bool {
	var oldest *Conn
	n := 0
	for c := range some {
		if c.busy.Load() {
			continue
		}
		if oldest == nil || c.idleSince.Load() < oldest.idleSince.Load() {
			oldest = c
		}
		if n++; n == sample {
			break
		}
	}
	if oldest == nil {
		return false
	}
	l.drop(oldest)
	_ = cutOff(oldest.Conn) // the goroutine that reads it gets an error
	return true
}

// refuse closes c, for which there is no room. l.mu is held.
func (l *Listener) refuse(c net.Conn, from netip.Prefix) {
	if now := time.Now(); now.Sub(l.told) > time.Minute {
		l.told = now
		l.cfg.Log.Warn("too many connections are open", "open", l.n, "peer", from.Addr(), "of it", len(l.open[from]))
	}
	if tcp, ok := c.(*net.TCPConn); ok && l.cfg.TLS == nil { // a handshake for a refusal would cost more than that spares
		_ = tcp.SetWriteDeadline(time.Now().Add(time.Second)) // its buffer is empty
		_, _ = io.WriteString(tcp, fullHead+strconv.Itoa(len(fullBody))+"\r\n\r\n"+fullBody)
	}
	_ = c.Close()
}

// The answer to a connection beyond the limit, before its request is read.
const (
	fullBody = `{"detail":"The server has as many connections as it may, in all or from your address; try again soon","code":"overloaded"}`
	fullHead = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\nCache-Control: no-store\r\n" +
		"X-Content-Type-Options: nosniff\r\nContent-Type: application/json\r\nContent-Length: "
)

// origin is the address of the client, or its /64 network for IPv6.
func origin(c net.Conn) netip.Prefix {
	addr := address(c)
	bits := addr.BitLen()
	if addr.Is6() && !addr.IsLoopback() {
		bits = 64
	}
	from, _ := addr.Prefix(bits)
	return from
}

// address is that of the other end.
func address(c net.Conn) (addr netip.Addr) {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		addr, _ = netip.AddrFromSlice(a.IP)
	}
	return addr.Unmap()
}

func (l *Listener) add(c *Conn) *Conn {
	c.peer = origin(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.insert(c)
	return c
}

// insert makes c one of the open connections. l.mu is held.
func (l *Listener) insert(c *Conn) {
	c.idleSince.Store(time.Now().UnixNano())
	if l.open[c.peer] == nil {
		l.open[c.peer] = make(map[*Conn]struct{})
	}
	l.open[c.peer][c] = struct{}{}
	l.n++
}

func (l *Listener) remove(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(c)
}

// drop is remove with l.mu held.
func (l *Listener) drop(c *Conn) {
	some := l.open[c.peer]
	if _, ok := some[c]; !ok {
		return
	}
	delete(some, c)
	if l.n--; len(some) == 0 {
		delete(l.open, c.peer)
	}
}

// hurry is the time in which started requests must arrive when the server stops.
const hurry = goodbye * 3 / 4

// Hurry gives up requests that do not arrive soon: fasthttp would wait for them, and its own limit is long. Nor does it know
// that a connection is idle on which nothing has come behind a stream.
func (l *Listener) Hurry() {
	l.mu.Lock()
	l.until = time.Now().Add(hurry)
	all := slices.Collect(l.all)
	l.mu.Unlock()
	for _, c := range all {
		if c.stream.Load() == nil {
			_ = c.Conn.SetReadDeadline(l.soonest(time.Time{}, c.awaitsFirst.Load() && c.behind))
		}
	}
}

// soonest returns t, or the time by which all must have been read: at once for a request behind a stream of which nothing has come.
func (l *Listener) soonest(t time.Time, idle bool) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.until.IsZero():
		return t
	case idle:
		return time.Now()
	case t.IsZero() || t.After(l.until):
		return l.until
	}
	return t
}

// shortage reports whether Accept may succeed later.
func shortage(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
