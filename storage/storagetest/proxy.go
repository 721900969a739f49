package storagetest

import (
	"io"
	"math"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy stands between a program and a database. It can swallow and delay their packets, and cut their connections.
type Proxy struct {
	Silent atomic.Bool  // swallows data and the ends of connections
	Mute   atomic.Bool  // is Silent in the direction from the database to the program alone
	Stuck  atomic.Bool  // reads nothing that the database sends, and ends no connection, as a program that is stopped
	Away   atomic.Bool  // accepts no connection: see Cut
	Delay  atomic.Int64 // of each piece of data, in nanoseconds
	Left   atomic.Int64 // how many more pieces it passes on, in either direction, before the one it cuts at
	Bytes  atomic.Int64 // passed on so far

	listener net.Listener
	target   string

	mu    sync.Mutex // guards conns
	conns map[net.Conn]bool
}

// NewProxy returns a proxy, which ends with the test, and the URL to reach the database through it.
func NewProxy(tb testing.TB, databaseURL string) (*Proxy, string) {
	tb.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{listener: l, target: u.Host, conns: make(map[net.Conn]bool)}
	p.Left.Store(math.MaxInt64)
	go p.serve() // ends with the listener
	tb.Cleanup(func() {
		_ = l.Close()
		p.Stuck.Store(false)
		p.Cut()
	})
	u.Host = l.Addr().String()
	return p, u.String()
}

// Cut ends all connections, and refuses others until Away is reset.
func (p *Proxy) Cut() {
	p.Away.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Restore ends all disturbances. A connection that has lost data stays broken.
func (p *Proxy) Restore() {
	p.Silent.Store(false)
	p.Mute.Store(false)
	p.Stuck.Store(false)
	p.Away.Store(false)
	p.Delay.Store(0)
	p.Left.Store(math.MaxInt64)
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil || !p.add(client, server) {
			_ = client.Close()
			continue
		}
		go p.copy(server, client, false)
		go p.copy(client, server, true)
	}
}

// add records a connection and its continuation to the database. It refuses both while the database is away.
func (p *Proxy) add(client, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Away.Load() {
		_ = server.Close()
		return false
	}
	p.conns[client], p.conns[server] = true, true
	return true
}

// copy forwards data, back to the program or to the database. While the proxy is silent it drops both data and the connection's end.
func (p *Proxy) copy(to io.WriteCloser, from net.Conn, back bool) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, from)
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		for (back || err != nil) && p.Stuck.Load() {
			<-time.After(time.Millisecond)
		}
		if p.Silent.Load() || back && p.Mute.Load() {
			if err != nil {
				return
			}
			continue
		}
		if err != nil {
			_ = to.Close()
			return
		}
		if p.Left.Add(-1) == 0 {
			_, _ = to.Close(), from.Close()
			return
		}
		if d := p.Delay.Load(); d > 0 {
			<-time.After(time.Duration(d))
		}
		p.Bytes.Add(int64(n))
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
