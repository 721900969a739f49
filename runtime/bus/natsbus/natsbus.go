// Package natsbus carries the hints of the servers of a cluster over NATS instead of PostgreSQL. It is separate from package bus, so
// that a program without NATS is built without its client.
package natsbus

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/batonrun/baton/runtime/bus"
)

const (
	// timeout is that of a connection attempt, and of writing to a connection.
	timeout = 3 * time.Second
	// The client closes a connection after two pings without an answer.
	pingEvery = 5 * time.Second
	// mostWaiting and mostBytes are how many datagrams wait for the receiver, and their bytes. More are lost.
	mostWaiting = 1000
	mostBytes   = 8 << 20
	// firstPause and longestPause are the pauses between attempts to connect.
	firstPause   = 250 * time.Millisecond
	longestPause = 10 * time.Second
)

// Servers are the NATS servers of a URL.
type Servers struct {
	urls    string
	options []nats.Option
}

// Parse reads a URL such as nats://host:4222 or tls://user:password@host:4222, or several with commas between them. The parameters creds,
// ca, cert and key name files: credentials, the authorities that sign the servers' certificates, and this client's certificate and
// its key, all in PEM. Parse does not connect. Its errors do not quote the URL.
func Parse(address string) (*Servers, error) {
	files := make(map[string]string)
	var urls []string
	for part := range strings.SplitSeq(address, ",") {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.Fragment != "" {
			return nil, errors.New("want a URL such as nats://host:4222 or tls://user:password@host:4222, or several with commas between them, with special characters percent-encoded")
		}
		for name, values := range u.Query() {
			switch name {
			case "creds", "ca", "cert", "key":
				files[name] = values[0]
			default:
				return nil, fmt.Errorf("unknown parameter %q; there are creds, ca, cert and key", name)
			}
		}
		u.RawQuery = ""
		urls = append(urls, u.String())
	}
	for name, file := range files {
		if _, err := os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	s := &Servers{strings.Join(urls, ","), []nats.Option{
		nats.Name("baton"), nats.NoReconnect(), nats.Timeout(timeout), nats.FlusherTimeout(timeout),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(2), nats.SyncQueueLen(mostWaiting),
		nats.ErrorHandler(func(c *nats.Conn, _ *nats.Subscription, err error) {
			if !errors.Is(err, nats.ErrSlowConsumer) { // without the permission to use the subject nothing else would end the connection
				c.Close()
			}
		}),
	}}
	if (files["cert"] == "") != (files["key"] == "") {
		return nil, errors.New("set both cert and key, or neither")
	}
	if file := files["creds"]; file != "" {
		s.options = append(s.options, nats.UserCredentials(file))
	}
	if file := files["ca"]; file != "" {
		s.options = append(s.options, nats.RootCAs(file))
	}
	if file := files["cert"]; file != "" {
		s.options = append(s.options, nats.ClientCert(file, files["key"]))
	}
	return s, nil
}

// Reach sends a datagram to itself, and returns how long that took. It fails when no server is reachable, or when this client may not
// use the subjects of Bus.
func (s *Servers) Reach(ctx context.Context) (time.Duration, error) {
	c, err := s.open(subject("doctor." + rand.Text()))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	began := time.Now()
	if err := c.Publish(c.sub.Subject, nil); err != nil {
		return 0, err
	}
	if _, err := c.sub.NextMsgWithContext(ctx); err != nil {
		return 0, errors.Join(err, c.LastError())
	}
	return time.Since(began), nil
}

// subject is where the servers of a database meet.
func subject(database string) string { return "baton." + database }

// Bus is the bus of the servers of a database. It connects when it is used, and again whenever the connection is lost.
type Bus struct {
	servers *Servers
	subject string
	log     *slog.Logger

	conn     atomic.Pointer[connection] // nil while there is none
	attempts int                        // to connect, since a datagram has arrived; of Receive
	next     time.Time                  // when it may connect again; of Receive
	trouble  string                     // what was logged since then; of Receive
}

var _ bus.Bus = (*Bus)(nil)

// connection is a connection that receives datagrams. It does not reconnect.
type connection struct {
	*nats.Conn
	sub *nats.Subscription
}

// Bus returns the bus of the servers of a database, which is a name that no other database has.
func (s *Servers) Bus(database string, log *slog.Logger) *Bus {
	return &Bus{servers: s, subject: subject(database), log: log}
}

// open connects and subscribes.
func (s *Servers) open(subject string) (*connection, error) {
	conn, err := nats.Connect(s.urls, s.options...)
	if err != nil {
		return nil, err
	}
	sub, err := conn.SubscribeSync(subject)
	if err == nil {
		err = sub.SetPendingLimits(mostWaiting, mostBytes)
	}
	if err != nil {
		err = reason(conn, err)
		conn.Close()
		return nil, err
	}
	return &connection{conn, sub}, nil
}

// reason is why a connection has ended, or else err, which says only that it has.
func reason(conn *nats.Conn, err error) error { return cmp.Or(conn.LastError(), err) }

// Send implements bus.Bus. It blocks for up to 3 seconds when NATS does not read.
func (b *Bus) Send(_ context.Context, datagram []byte) error {
	conn := b.conn.Load()
	if conn == nil {
		return bus.ErrCut
	}
	return conn.Publish(b.subject, datagram)
}

// Receive implements bus.Bus. It connects when there is no connection, which takes up to some seconds, whatever ctx says.
func (b *Bus) Receive(ctx context.Context) ([]byte, error) {
	conn := b.conn.Load()
	if conn == nil {
		var err error
		if conn, err = b.connect(ctx); err != nil {
			return nil, err
		}
	}
	m, err := conn.sub.NextMsgWithContext(ctx)
	switch {
	case err == nil:
		if b.attempts = 0; b.trouble != "" {
			b.log.Info("NATS carries hints again", "server", conn.ConnectedUrlRedacted())
			b.trouble = ""
		}
		return m.Data, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case !conn.IsClosed():
		return nil, bus.ErrCut
	}
	b.conn.Store(nil)
	err = reason(conn.Conn, err)
	b.complain(err)
	return nil, errors.Join(bus.ErrCut, err)
}

// connect connects, after a pause that grows with each attempt.
func (b *Bus) connect(ctx context.Context) (*connection, error) {
	if b.attempts > 0 {
		select {
		case <-time.After(time.Until(b.next)):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	b.attempts++
	pause := min(firstPause<<min(b.attempts, 10), longestPause)
	b.next = time.Now().Add(pause/2 + mathrand.N(pause/2))
	conn, err := b.servers.open(b.subject)
	if err != nil {
		b.complain(err)
		return nil, err
	}
	b.conn.Store(conn)
	return conn, nil
}

// complain logs an error, once until datagrams arrive again.
func (b *Bus) complain(err error) {
	if err.Error() != b.trouble {
		b.trouble = err.Error()
		b.log.Warn("NATS carries no hints: the servers look at the database more often until it does", "subject", b.subject, "error", err)
	}
}

// Close implements bus.Bus.
func (b *Bus) Close() error {
	if conn := b.conn.Swap(nil); conn != nil {
		conn.Close()
	}
	return nil
}
