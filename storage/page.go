package storage

import (
	"context"
	"database/sql"
	"errors"

	"github.com/batonrun/baton/runtime/model"
)

// A page is read by one statement, so that it agrees with itself: it counts the list, finds the keys of the rows that may
// stand on the page with their sizes, one more than its limit, and reads those of them that fit. What is too large for
// a page is not even read. Such a statement looks like
//
//	SELECT …, (<count>), sized.found
//	FROM (SELECT key, found
//		FROM (SELECT key, sum(size) OVER (ORDER BY key) - size AS behind, count(*) OVER () AS found
//			FROM (SELECT key, octet_length(…) AS size FROM … LIMIT ?) AS plain) AS counted
//		WHERE behind < ? ORDER BY key LIMIT …) AS sized
//	JOIN … ORDER BY key

// sizedFirst ends what finds the keys of a page, in the page's order and with a limit that none reaches: SQLite then reads the rows
// in this order, and would else have each of them in memory three times while it sorts them.
const sizedFirst = ` LIMIT 1000000) AS sized`

// scanner reads a row, and more columns behind its own.
type scanner[T any] func(rows *sql.Rows, more ...any) (T, error)

// pageOf returns the page of at most limit rows that a page statement selects. The statement's last two parameters are the
// number of rows and of bytes; args are the others.
func pageOf[T any](ctx context.Context, q querier, scan scanner[T], bytes, limit int, query string, args ...any) (model.Page[T], error) {
	var p model.Page[T]
	found := 0
	rows, err := all(ctx, q, func(rows *sql.Rows) (T, error) { return scan(rows, &p.Total, &found) }, query, append(args, limit+1, bytes)...)
	p.Rows = rows[:min(len(rows), limit)]
	p.More = found > len(p.Rows)
	return p, err
}

// counted gives an empty page the total that no row of it could tell.
func counted[T any](ctx context.Context, q querier, p model.Page[T], query string, args ...any) (model.Page[T], error) {
	if len(p.Rows) > 0 {
		return p, nil
	}
	total, err := one(ctx, q, scalar[int], query, args...)
	if errors.Is(err, model.ErrNotFound) {
		err = nil
	}
	p.Total = total
	return p, err
}
