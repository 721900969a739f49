// Package sqldb opens SQLite or PostgreSQL and runs statements that are written once: in PostgreSQL's words with ? for parameters, of
// which a DB replaces the few that SQLite spells differently. It knows the names of no tables.
package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqlite"
)

// Config says which database to open and how. No field has a default.
type Config struct {
	URL              string        // sqlite:PATH or postgres://…, with lib/pq's parameters
	Readers, Writers int           // the maximum numbers of connections; SQLite has one that writes
	Timeout          time.Duration // of a statement on PostgreSQL
	WriteTimeout     time.Duration // of one that writes
	LockTimeout      time.Duration // of a wait for another transaction; half a statement's time bounds it, too
	ConnectTimeout   time.Duration // of the opening of a PostgreSQL connection
	Words            []string      // further texts in statements, each before the text that SQLite has instead of it
	Guards           []string      // constraints of PostgreSQL whose violation is data.ErrConflict
}

// Mode is the purpose of a pool of connections.
type Mode int

// Modes are the purposes of connections.
const (
	Reading   Mode = iota
	Looking        // at a queue: statements that follow an index, and rows that may be lost
	Writing        // commits, and small writes beside them
	Migrating      // changing the schema, which takes as long as it takes
)

// DB is one of the two kinds of databases, with how to connect to it.
type DB struct {
	Name   string // "sqlite" or "postgres"
	Single bool   // one process has the database to itself, and a statement costs no round trip

	cfg       Config
	bind      int                 // sqlx's bind type
	words     *strings.Replacer   // from PostgreSQL's words to the database's; nil for PostgreSQL
	begin     string              // begins a transaction that writes
	beginRead string              // begins one that reads, as of one moment
	quote     func(string) string // a literal, where a message may hold several statements; else nil
	message   int                 // about how many bytes of rows one statement takes
	open      func(Config, Mode) (*sqlx.DB, error)
	list      func(any) any
	explain   func(error) error // the sentinel of package data that err means, or nil
}

// New returns the database that a URL names. It connects to nothing.
func New(cfg Config) (*DB, error) {
	switch scheme, _, _ := strings.Cut(cfg.URL, ":"); scheme {
	case "sqlite":
		return newSQLite(cfg), nil
	case "postgres", "postgresql":
		return newPostgres(cfg), nil
	}
	return nil, errors.New("database URL: must begin with sqlite: or postgres://")
}

// Open returns connections for a purpose, each of which it opens when it is needed.
func (db *DB) Open(m Mode) (*Pool, error) {
	opened, err := db.open(db.cfg, m)
	if err != nil {
		return nil, err
	}
	return &Pool{DB: db, SQL: opened}, nil
}

// List returns the parameter of = ANY (?), from a slice.
func (db *DB) List(slice any) any { return db.list(slice) }

// Arrays returns rows of numbers and of texts as the parameters of PostgreSQL's unnest: one for each column.
func (*DB) Arrays(rows [][]any) []any { return arraysOf(rows) }

// form is the form of a statement: one text serves for several.
type form int

const (
	plain form = iota // as it stands
	alone             // with one element instead of each list
	rows              // for any number of rows, each parameter that has a type being an array
)

// statement returns query as the database is to read it.
func (db *DB) statement(query string, f form) string {
	if !db.Single {
		if f == rows {
			query = manyRows(query)
		}
		return sqlx.Rebind(db.bind, query)
	}
	query = lists.ReplaceAllStringFunc(query, func(list string) string { return readList(list, f == alone) })
	if f == alone {
		query = strings.ReplaceAll(query, "= ANY (?)", "= ?")
	}
	return sqlx.Rebind(db.bind, typed.ReplaceAllString(db.words.Replace(query), "?"))
}

// Forms returns the texts in which the database may get a statement: as it stands, for several rows, and with lists of one element. A test
// plans each.
func (db *DB) Forms(query string) [3]string {
	several := db.statement(someRows(query, 2), plain)
	if !db.Single && typed.MatchString(query) && !strings.Contains(query, "unnest") {
		several = db.statement(query, rows)
	}
	return [3]string{db.statement(query, plain), several, db.statement(query, alone)}
}

// typed is a parameter with its type, which a column of rows has.
var typed = regexp.MustCompile(`\?::(\w+)`)

// manyRows returns an INSERT, UPDATE or DELETE of one row as one of many, in PostgreSQL's words.
func manyRows(query string) string {
	var arrays, names []string
	query = typed.ReplaceAllStringFunc(query, func(param string) string {
		arrays, names = append(arrays, param+"[]"), append(names, fmt.Sprint("p", len(names)+1))
		return "given." + names[len(names)-1]
	})
	from := "\nFROM unnest(" + strings.Join(arrays, ", ") + ") AS given (" + strings.Join(names, ", ") + ")"
	if before, values, after, ok := cutInsert(query); ok {
		return before + "SELECT " + values + from + after
	}
	if strings.HasPrefix(query, "\nDELETE") {
		from = strings.Replace(from, "FROM", "USING", 1)
	}
	return strings.Replace(query, "\nWHERE", from+"\nWHERE", 1)
}

// someRows returns an INSERT of n rows for an INSERT of one row, with the parameters of the rows in order.
func someRows(query string, n int) string {
	before, values, after, ok := cutInsert(query)
	if !ok || n == 1 {
		return query
	}
	return before + "VALUES (" + strings.Repeat(values+"), (", n-1) + values + ")" + after
}

// cutInsert returns the values of an INSERT, and its text before and after VALUES (…).
func cutInsert(query string) (before, values, after string, ok bool) {
	before, rest, ok := strings.Cut(query, "VALUES (")
	if values, after, more := strings.Cut(rest, ")\nON CONFLICT"); more {
		return before, values, "\nON CONFLICT" + after, ok
	}
	return before, strings.TrimSuffix(rest, ")"), "", ok
}

// lists finds the lists of several columns that a statement reads from.
var lists = regexp.MustCompile(`unnest\(\?::\w+\[\](?:, \?::\w+\[\])*\) AS (\w+) \((\w+(?:, \w+)*)\)`)

// readList returns a list in SQLite's words. A single request's parameters are one element of each list, and are found twice as fast
// without a list.
func readList(list string, alone bool) string {
	found := lists.FindStringSubmatch(list)
	var columns []string
	for i, name := range strings.Split(found[2], ", ") {
		if alone {
			columns = append(columns, "? AS "+name)
		} else {
			columns = append(columns, fmt.Sprintf("value ->> %d AS %s", i, name))
		}
	}
	from := " FROM json_each(?)"
	if alone {
		from = ""
	}
	return "(SELECT " + strings.Join(columns, ", ") + from + ") AS " + found[1]
}

// elements are parameters for lists of n elements, and the form of the statement that takes them: one row of
// parameters for each element, as a statement with a list of one has them.
func (db *DB) elements(list [][]any) ([]any, form) {
	switch {
	case !db.Single:
		return arraysOf(list), plain
	case len(list) == 1:
		return list[0], alone
	case len(list[0]) > 1:
		return []any{jsonText(list)}, plain
	}
	flat := make([]any, len(list))
	for i := range list {
		flat[i] = list[i][0]
	}
	return []any{jsonText(flat)}, plain
}

// explained wraps err with the sentinel of package data that matches. Errors of the data stay as they are. After a cancellation it
// returns the context's error.
func (db *DB) explained(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, data.ErrNotFound) {
		return err
	}
	if ctxErr := ctx.Err(); ctxErr != nil {
		return fmt.Errorf("%w: %w", ctxErr, err)
	}
	sentinel := db.explain(err)
	if sentinel == nil && isConnectionError(err) {
		sentinel = data.ErrUnavailable
	}
	if sentinel == nil || errors.Is(err, sentinel) {
		return err
	}
	return fmt.Errorf("%w: %w", sentinel, err)
}

func isConnectionError(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, sql.ErrTxDone) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// IsLocked reports whether a statement of PostgreSQL has waited for a lock for too long.
func IsLocked(err error) bool {
	pe := (*pq.Error)(nil)
	return errors.As(err, &pe) && pe.Code == pqerror.LockNotAvailable
}

// IsUndefinedTable reports whether a statement has named a table that is not there.
func IsUndefinedTable(err error) bool {
	if pe := (*pq.Error)(nil); errors.As(err, &pe) {
		return pe.Code == pqerror.UndefinedTable
	}
	return sqlite.IsUndefinedTable(err)
}
