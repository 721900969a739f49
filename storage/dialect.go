package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/terms"
	"github.com/batonrun/baton/storage/sqlite"
)

// mode is the purpose of a pool of connections.
type mode int

const (
	reading mode = iota
	looking      // at the queue
	writing
	migrating
)

// dialect has the differences between the databases.
type dialect struct {
	name       string
	goose      goose.Dialect
	migrations fs.FS
	bind       int               // sqlx's bind type
	words      *strings.Replacer // from PostgreSQL's words to the dialect's; nil for PostgreSQL

	begin     string              // begins a transaction that writes
	beginRead string              // begins one that reads, as of one moment
	quote     func(string) string // a literal, where a message may hold several statements; else nil
	single    bool                // one process has the database to itself, and a statement costs no round trip
	unnest    bool                // many rows go into one statement, as arrays
	message   int                 // about how many bytes of rows one statement takes
	lazyTerms bool                // a search of whole terms finds one run after the other, in the order of their keys

	open  func(Config, mode) (*sqlx.DB, error)
	check func(context.Context, querier) error // fails for a database that a server cannot use; writes nothing
	lock  func(Config) (*sqlite.Lock, error)   // locks a file for a server, and refuses a file that must not be opened as it lies there
	list  func(any) any                        // the parameter of = ANY (?), from a slice
	// search returns the parameter of terms @@ ?, given the terms with a beginning where they are few.
	search  func(s terms.Search, begun map[string][]string) string
	explain func(error) error // the sentinel of model that err means, or nil
}

// form is the form of a statement: one text serves for several.
type form int

const (
	plain form = iota // as it stands
	alone             // with one element instead of each list
	rows              // for any number of rows, each parameter that has a type being an array
)

// statement returns query as the database is to read it.
func (d *dialect) statement(query string, f form) string {
	switch {
	case f == rows && d.unnest:
		query = manyRows(query)
	case f == alone && !d.unnest:
		query = oneElement.Replace(query)
	}
	if d.words != nil {
		query = typed.ReplaceAllString(d.words.Replace(query), "?")
	}
	return sqlx.Rebind(d.bind, query)
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
	if before, rest, ok := strings.Cut(query, "VALUES ("); ok {
		values, after, more := strings.Cut(rest, ")\nON CONFLICT")
		if !more {
			return before + "SELECT " + strings.TrimSuffix(values, ")") + from
		}
		return before + "SELECT " + values + from + "\nON CONFLICT" + after
	}
	if strings.HasPrefix(query, "\nDELETE") {
		from = strings.Replace(from, "FROM", "USING", 1)
	}
	return strings.Replace(query, "\nWHERE", from+"\nWHERE", 1)
}

// someRows returns an INSERT of n rows for an INSERT of one row, with the parameters of the rows in order.
func someRows(query string, n int) string {
	before, rest, ok := strings.Cut(query, "VALUES (")
	if !ok || n == 1 {
		return query
	}
	values, after, more := strings.Cut(rest, ")\nON CONFLICT")
	if more {
		after = "\nON CONFLICT" + after
	} else {
		values = strings.TrimSuffix(values, ")")
	}
	return before + "VALUES (" + strings.Repeat(values+"), (", n-1) + values + ")" + after
}

// Lists that statements read from, in SQLite's form. A single decision's requests are one element of each list, and are
// found twice as fast without a list.
var (
	listWords = []string{
		"= ANY (?)", "IN (SELECT value FROM json_each(?))",
		unnestNames, "(SELECT value ->> 0 AS project, value ->> 1 AS owner, value ->> 2 AS name FROM json_each(?)) AS asked",
		unnestIDs, "(SELECT value ->> 0 AS thread_key, value ->> 1 AS id FROM json_each(?)) AS asked",
	}
	oneElement = strings.NewReplacer(
		"= ANY (?)", "= ?",
		unnestNames, "(SELECT ? AS project, ? AS owner, ? AS name) AS asked",
		unnestIDs, "(SELECT ? AS thread_key, ? AS id) AS asked",
	)
)

const (
	unnestNames = `unnest(?::text[], ?::text[], ?::text[]) AS asked (project, owner, name)`
	unnestIDs   = `unnest(?::bigint[], ?::text[]) AS asked (thread_key, id)`
)

// elements are parameters for lists of n elements, and the form of the statement that takes them: one row of
// parameters for each element, as a statement with a list of one has them.
func (d *dialect) elements(list [][]any) ([]any, form) {
	switch {
	case d.unnest:
		return arraysOf(list), plain
	case len(list) == 1:
		return list[0], alone
	}
	if len(list[0]) == 1 {
		flat := make([]any, len(list))
		for i := range list {
			flat[i] = list[i][0]
		}
		return []any{jsonText(flat)}, plain
	}
	return []any{jsonText(list)}, plain
}

func jsonText(list any) string {
	text, _ := json.Marshal(list) // of numbers and strings
	return string(text)
}

func keysOf(keys []int64) (list [][]any) {
	for _, key := range keys {
		list = append(list, []any{key})
	}
	return list
}

func namesOf(names []data.Name) (list [][]any) {
	for _, n := range names {
		list = append(list, []any{n.Project, n.User, n.ID})
	}
	return list
}
