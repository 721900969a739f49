package storage

import (
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"
)

// mode says what a pool of connections is for.
type mode int

const (
	reading mode = iota
	writing
	migrating
	copying
)

// dialect is what differs between the databases.
type dialect struct {
	name  string
	goose goose.Dialect
	bind  int               // sqlx's bind type
	words *strings.Replacer // from PostgreSQL's words to the dialect's; nil for PostgreSQL
	batch int               // how many rows one INSERT takes at most; a power of two

	begin  string              // begins a transaction that writes
	quote  func(string) string // a literal, where a message may hold several statements; else nil
	single bool                // one process has the database to itself
	unnest bool                // many rows of events go into one statement
	remote bool                // each statement costs a round trip: keys are taken and rows read many at a time

	open    func(Config, mode) (*sqlx.DB, error)
	lock    func(Config) (*fileLock, error) // takes the server's lock; nil, nil when there is none
	list    func(any) any                   // the parameter of = ANY (?), from a slice
	explain func(error) error               // the sentinel of runtime that err means, or nil
}

// statement returns query as the database is to read it, with its VALUES for n rows.
func (d *dialect) statement(query string, n int) string {
	if n > 1 {
		query = repeatValues(query, n)
	}
	if d.words != nil {
		query = d.words.Replace(query)
	}
	return sqlx.Rebind(d.bind, query)
}

// repeatValues returns an INSERT of one row as one of n rows.
func repeatValues(query string, n int) string {
	const values = "VALUES "
	start := strings.Index(query, values) + len(values)
	end := start + strings.Index(query[start:], ")") + 1
	return query[:end] + strings.Repeat(", "+query[start:end], n-1) + query[end:]
}
