package storage

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

// One statement reads a page, so that the page is consistent: it counts the list if that is asked for, finds the keys and sizes of up to limit + 1 rows,
// and reads the rows that fit. It does not read rows that exceed the page's bytes. Such a statement looks like
//
//	SELECT …, (<count>), sized.found
//	FROM (SELECT key, found
//		FROM (SELECT key, sum(size) OVER (ORDER BY key) - size AS behind, count(*) OVER () AS found
//			FROM (SELECT key, octet_length(…) AS size FROM … LIMIT ?) AS plain) AS counted
//		WHERE behind < ? ORDER BY key LIMIT …) AS sized
//	JOIN … ORDER BY key

// sizedFirst ends the part that finds the keys of a page, in the page's order, with a limit that no page reaches. It makes SQLite
// read the rows in this order; otherwise SQLite would sort the rows, with each of them in memory three times.
const sizedFirst = ` LIMIT 1000000) AS sized`

// scanner reads a row and the columns after it.
type scanner[T any] func(rows *sql.Rows, more ...any) (T, error)

// pageOf returns the page of at most limit rows that a page statement selects. The statement's last two parameters are the
// number of rows and of bytes; args are the others.
func pageOf[T any](ctx context.Context, q sqldb.Querier, scan scanner[T], bytes, limit int, query string, args ...any) (data.Page[T], error) {
	var p data.Page[T]
	found := 0
	rows, err := sqldb.All(ctx, q, func(rows *sql.Rows) (T, error) { return scan(rows, &p.Total, &found) }, query, append(args, limit+1, bytes)...)
	p.Rows = rows[:min(len(rows), limit)]
	p.More = found > len(p.Rows)
	return p, err
}

// uncounted takes the place of the count that is not asked for.
const uncounted = `SELECT 0`

// maxCount bounds the count of a list. Counting stops behind it.
const maxCount = 10_000

// counted completes the count of a page. An empty page has no row with it.
func counted[T any](ctx context.Context, q sqldb.Querier, p data.Page[T], query string, args ...any) (data.Page[T], error) {
	if len(p.Rows) == 0 {
		total, err := sqldb.One(ctx, q, sqldb.Scalar[int], query, args...)
		if err != nil && !errors.Is(err, data.ErrNotFound) {
			return p, err
		}
		p.Total = total
	}
	p.Counted = p.Total <= maxCount
	return p, nil
}

// messagePage returns the first messages that a statement selects in the order of their seqs: at most limit, which is the
// statement's last parameter, as many as do not exceed bytes, and at least one. SQLite reads a row when it is asked for the row.
// PostgreSQL sends all rows, so it finds the end of the page itself.
func messagePage(ctx context.Context, q sqldb.Querier, d *sqldb.DB, bytes, limit int, query string, args ...any) (p data.Page[data.Message], err error) {
	args = append(args, limit+1)
	if !d.Single {
		query, args = untilFull(query), append(args, bytes)
	}
	n, size := 0, 0
	p.Rows, err = sqldb.Some(ctx, q, func(rows *sql.Rows) (m data.Message, err error) {
		if p.More = n == limit || size >= bytes; !p.More {
			text := messageInto{m: &m.Message}
			err = scanMessageWith(rows, &m, &text)
			n, size = n+1, size+text.size
		}
		return m, err
	}, func(data.Message) bool { return !p.More }, query, args...)
	p.Rows = p.Rows[:min(n, len(p.Rows))]
	return p, err
}

// untilFull returns a statement that selects messages as one that ends behind the first row that exceeds a number of bytes, its
// last parameter.
func untilFull(query string) string {
	order := "seq"
	if strings.Contains(query, newestFirst) {
		order = "seq DESC"
	}
	return `
SELECT ` + messageColumns + `, key
FROM (SELECT ` + messageColumns + `, key,
	sum(octet_length(message)) OVER (ORDER BY ` + order + ` ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING) AS before
	FROM (` + query + `) AS plain) AS sized
WHERE COALESCE(before, 0) < ? ORDER BY ` + order
}
