package sqldb

import (
	"context"
	"database/sql"
	"errors"

	"github.com/batonrun/baton/runtime/data"
)

// A page is read by one statement, so that it is consistent. The statement counts the list on request, finds the keys and sizes of up to
// limit + 1 rows, and reads the rows that fit into the page's bytes. It has this form:
//
//	SELECT …, (<count>), sized.found
//	FROM (SELECT key, found
//		FROM (SELECT key, sum(size) OVER (ORDER BY key) - size AS behind, count(*) OVER () AS found
//			FROM (SELECT key, octet_length(…) AS size FROM … LIMIT ?) AS plain) AS counted
//		WHERE behind < ? ORDER BY key LIMIT …) AS sized
//	JOIN … ORDER BY key

// SizedFirst ends the part that finds the keys of a page, in the page's order, with a limit that no page reaches. It makes SQLite
// read the rows in this order; otherwise SQLite would sort the rows, with each of them in memory three times.
const SizedFirst = ` LIMIT 1000000) AS sized`

// scanner reads a row and the columns after it.
type scanner[T any] func(rows *sql.Rows, more ...any) (T, error)

// PageOf returns the page of at most limit rows that a page statement selects. The statement's last two parameters are the
// number of rows and of bytes; args are the others.
func PageOf[T any](ctx context.Context, q Querier, scan scanner[T], bytes, limit int, query string, args ...any) (data.Page[T], error) {
	var p data.Page[T]
	found := 0
	rows, err := All(ctx, q, func(rows *sql.Rows) (T, error) { return scan(rows, &p.Total, &found) }, query, append(args, limit+1, bytes)...)
	p.Rows = rows[:min(len(rows), limit)]
	p.More = found > len(p.Rows)
	return p, err
}

// MaxCount bounds the count of a list. Counting stops behind it.
const MaxCount = 10_000

// CountTo returns the LIMIT of a page statement's count. It is 0 if the caller wants no count: then the count reads nothing.
func CountTo(asked bool) int {
	if asked {
		return MaxCount + 1
	}
	return 0
}

// Counted sets the count of a page that PageOf returned with err, if asked. An empty page has no row with the count, so the query is run.
func Counted[T any](ctx context.Context, q Querier, p data.Page[T], err error, asked bool, query string, args ...any) (data.Page[T], error) {
	if err != nil || !asked {
		return p, err
	}
	if len(p.Rows) == 0 {
		p.Total, err = One(ctx, q, Scalar[int], query, args...)
		if err != nil && !errors.Is(err, data.ErrNotFound) {
			return p, err
		}
	}
	p.Counted = p.Total <= MaxCount
	return p, nil
}
