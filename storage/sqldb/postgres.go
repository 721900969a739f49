package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/batonrun/baton/runtime/data"
)

func newPostgres(cfg Config) *DB {
	return &DB{
		Name:      "postgres",
		cfg:       cfg,
		bind:      sqlx.DOLLAR,
		begin:     "BEGIN",
		beginRead: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
		quote:     pq.QuoteLiteral,
		message:   8 << 20,
		open:      openPostgres,
		list:      func(slice any) any { return pq.Array(slice) },
		explain:   func(err error) error { return explainPostgres(err, cfg.Guards) },
	}
}

func openPostgres(cfg Config, m Mode) (*sqlx.DB, error) {
	pc, err := pq.NewConfig(cfg.URL)
	if urlErr := (*url.Error)(nil); errors.As(err, &urlErr) {
		err = urlErr.Err // without the URL, which may hold a password
	}
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	// []byte parameters go as they are, which spares payloads the escaping of array literals.
	pc.BinaryParameters = true
	pc.ConnectTimeout = cfg.ConnectTimeout
	if pc.ApplicationName == "" {
		pc.ApplicationName = "baton"
	}
	limit, lockLimit := cfg.Timeout, cfg.LockTimeout
	if m == Writing { // waiting for a lock does not count as slow
		limit = min(limit, cfg.WriteTimeout)
		lockLimit = min(lockLimit, limit/2)
	}
	wait, conns, idle := limit+min(limit, 5*time.Second), 2, 2
	set := map[string]string{
		"statement_timeout": millis(limit),
		"lock_timeout":      millis(lockLimit),
		// A transaction of a lost client must release its locks soon, because the retry waits for them. Neither limit ends a session
		// that is blocked in sending to a client that does not read.
		"idle_in_transaction_session_timeout": millis(min(cfg.LockTimeout, wait)),
		"tcp_user_timeout":                    millis(wait),
		"timezone":                            "UTC",
	}
	if !strings.Contains(pc.Options, "search_path") {
		set["search_path"] = "baton" // a schema of its own: an application may share the database
	}
	if m != Migrating { // all statements use indexes, also in tables that were small when a statement was planned
		set["enable_seqscan"], set["jit"] = "off", "off"
	}
	switch m {
	case Looking:
		// A plan that was made while the queue was empty serves a long one. It may only follow the index, which is in order. Rows that
		// are taken may be lost.
		set["plan_cache_mode"], set["enable_bitmapscan"], set["enable_sort"] = "force_generic_plan", "off", "off"
		set["synchronous_commit"] = "off"
	case Reading:
		conns, idle = cfg.Readers, cfg.Readers
		set["default_transaction_read_only"] = "on"
		if pc.TargetSessionAttrs == pq.TargetSessionAttrsReadWrite { // which this connection is nowhere
			pc.TargetSessionAttrs = pq.TargetSessionAttrsPrimary
		}
	case Writing:
		conns = cfg.Writers
		// All statements are prepared and use indexes, also in joins, so one plan suffices for any table size.
		set["plan_cache_mode"], set["enable_hashjoin"], set["enable_mergejoin"] = "force_generic_plan", "off", "off"
	case Migrating:
		set["statement_timeout"] = "0"
		set["lock_timeout"] = millis(time.Second) // all commits wait behind a migration that waits
		set["idle_in_transaction_session_timeout"] = "0"
		wait = time.Hour
	}
	pc = pc.Clone()
	for name, value := range set {
		if _, given := pc.Runtime[name]; !given {
			pc.Runtime[name] = value
		}
	}
	connector, err := pq.NewConnectorConfig(pc)
	if err != nil {
		return nil, err
	}
	connector.Dialer(deadlineDialer{wait})
	db := sql.OpenDB(sessions{connector})
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(idle)
	return sqlx.NewDb(db, "postgres"), nil
}

// sessions opens PostgreSQL's sessions. A refused session is an outage in every language of the server, because the
// driver reports the severity only in the server's language.
type sessions struct{ driver.Connector }

// Connect implements driver.Connector.
func (s sessions) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := s.Connector.Connect(ctx)
	if refused := (*pq.Error)(nil); errors.As(err, &refused) && explainPostgres(err, nil) == nil {
		err = fmt.Errorf("%w: %w", data.ErrUnavailable, err)
	}
	return conn, err
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// explainPostgres classifies an error that is not about the statement or its data as temporary.
func explainPostgres(err error, guards []string) error {
	var pe *pq.Error
	if !errors.As(err, &pe) {
		return nil
	}
	switch pe.Code {
	case pqerror.DiskFull:
		return data.ErrDiskFull
	case pqerror.DataCorrupted, pqerror.IndexCorrupted:
		return data.ErrDamaged
	case pqerror.CharacterNotInRepertoire, pqerror.UntranslatableCharacter:
		return data.ErrText
	case pqerror.QueryCanceled:
		return data.ErrTooSlow
	case pqerror.UniqueViolation:
		if slices.Contains(guards, pe.Constraint) {
			return data.ErrConflict
		}
	case pqerror.ReadOnlySQLTransaction, pqerror.InsufficientPrivilege:
		return data.ErrDenied
	case pqerror.LockNotAvailable, pqerror.IdleInTransactionSessionTimeout:
		return data.ErrUnavailable
	}
	switch pe.Code.Class() {
	case pqerror.ClassInvalidAuthorizationSpecification, pqerror.ClassInvalidCatalogName:
		return data.ErrDenied
	case pqerror.ClassConnectionException, pqerror.ClassTransactionRollback, pqerror.ClassInsufficientResources,
		pqerror.ClassOperatorIntervention, pqerror.ClassSystemError:
		return data.ErrUnavailable
	}
	if pe.Severity == pqerror.SeverityFatal || pe.Severity == pqerror.SeverityPanic { // it has ended the session, or begun none
		return data.ErrUnavailable
	}
	return nil
}

// deadlineDialer opens connections with a deadline of wait for each read and write. Otherwise a network that drops
// packets would block a statement for ever, even after its context's end.
type deadlineDialer struct{ wait time.Duration }

func (d deadlineDialer) Dial(network, addr string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, addr)
}

func (d deadlineDialer) DialTimeout(network, addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, addr)
}

func (d deadlineDialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &deadlineConn{Conn: conn, wait: d.wait}, nil
}

type deadlineConn struct {
	net.Conn
	wait  time.Duration
	fixed bool // the driver has set a deadline itself, for the handshake
}

func (c *deadlineConn) SetDeadline(t time.Time) error {
	c.fixed = !t.IsZero()
	return c.Conn.SetDeadline(t)
}

func (c *deadlineConn) Read(b []byte) (int, error) {
	if !c.fixed {
		if err := c.SetReadDeadline(time.Now().Add(c.wait)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(b)
}

func (c *deadlineConn) Write(b []byte) (int, error) {
	if !c.fixed {
		if err := c.SetWriteDeadline(time.Now().Add(c.wait)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(b)
}
