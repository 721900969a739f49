package members

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"

	"github.com/lib/pq"

	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/storage/sqldb"
)

// notifyChannel is the channel of all servers of a database.
const notifyChannel = "baton"

// notifier is the bus of the servers of a PostgreSQL database: NOTIFY and LISTEN, on a connection of its own. A NOTIFY in a commit would
// hold a lock of the whole database until the commit ends. One connection for both directions means that each Send also checks
// whether it can still receive.
type notifier struct {
	watcher *Watcher

	mu   sync.Mutex // guards the fields below
	conn *pq.ListenerConn
	in   <-chan *pq.Notification // of conn; closed when it is broken
}

var _ bus.Bus = (*notifier)(nil)

// selectIdentity reads an identity of the database that no other has, not even one that was restored from a dump of it.
const selectIdentity = `
SELECT system_identifier || '-' || oid FROM pg_control_system(), pg_database WHERE datname = current_database()`

// Identity returns a name that no other PostgreSQL database has, except copies of its files.
func (r *Registry) Identity(ctx context.Context) (string, error) {
	return sqldb.One(ctx, r.read, sqldb.Scalar[string], selectIdentity)
}

// Bus returns the bus that connects the servers of the database. It is nil unless the database is shared. The instance must have joined
// before it is used.
func (r *Registry) Bus() bus.Bus {
	if r.w.cfg.DB.Single {
		return nil
	}
	return &notifier{watcher: r.watcher}
}

// Send implements bus.Bus. It closes the connection when it takes longer than ctx lasts.
func (n *notifier) Send(ctx context.Context, datagram []byte) error {
	n.mu.Lock()
	conn := n.conn
	n.mu.Unlock()
	if conn == nil {
		return bus.ErrCut
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := conn.ExecSimpleQuery("NOTIFY " + notifyChannel + ", " + pq.QuoteLiteral(string(datagram))); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}

// Receive implements bus.Bus. It connects when there is no connection, which takes up to some seconds, whatever ctx says.
func (n *notifier) Receive(ctx context.Context) ([]byte, error) {
	in, err := n.listen()
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	select {
	case got, ok := <-in:
		if !ok {
			return nil, errors.Join(bus.ErrCut, n.drop())
		}
		return []byte(got.Extra), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// listen returns the notifications of the connection, which it opens if there is none.
func (n *notifier) listen() (<-chan *pq.Notification, error) {
	n.mu.Lock()
	in := n.in
	n.mu.Unlock()
	if in != nil {
		return in, nil
	}
	address, err := url.Parse(n.watcher.cfg.URL)
	if err != nil {
		return nil, errors.Unwrap(err) // without the URL, which may hold a password
	}
	set := address.Query()
	set.Set("connect_timeout", "3")
	set.Set("application_name", sessionName(n.watcher.instance())) // who fences the instance ends the session: a stopped listener fills the queue of PostgreSQL
	set.Set("synchronous_commit", "off")
	address.RawQuery = set.Encode()
	notifications := make(chan *pq.Notification, 1000)
	conn, err := pq.NewListenerConn(address.String(), notifications)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	n.conn, n.in = conn, notifications
	n.mu.Unlock()
	if _, err := conn.Listen(notifyChannel); err != nil {
		_ = n.drop()
		return nil, err
	}
	return notifications, nil
}

// Close implements bus.Bus.
func (n *notifier) Close() error {
	_ = n.drop()
	return nil
}

// drop gives up the connection, and returns why it was broken before.
func (n *notifier) drop() error {
	n.mu.Lock()
	conn, in := n.conn, n.in
	n.conn, n.in = nil, nil
	n.mu.Unlock()
	if conn == nil {
		return nil
	}
	broken := conn.Close() != nil
	for range in { // its goroutine may wait for a reader
	}
	if !broken {
		return nil
	}
	return conn.Err()
}
