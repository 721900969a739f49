package rows

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/batonrun/baton/storage/sqldb"
)

const (
	reserveKeys = `
WITH serial AS MATERIALIZED (SELECT pg_get_serial_sequence(?, 'key')::regclass AS keys)
SELECT nextval(serial.keys) FROM serial, generate_series(1, CAST(? AS bigint))`

	// selectLastKey reads a key that no row of a SQLite table has ever been above.
	selectLastKey = `
SELECT last FROM given_keys WHERE name = ?`

	giveKeys = `
UPDATE given_keys SET last = ? WHERE name = ? AND last < ?`
)

// keysAhead is the number of keys that SQLite reserves at once. Its own AUTOINCREMENT would cost as much as an index
// for each row. A restart may skip as many keys.
const keysAhead = 1000

// keysAtOnce is the number of keys that PostgreSQL gives out at once.
const keysAtOnce = 64

// Keys that were taken serve for a time, so that those of all servers are in the order of their time, up to that. The last run of a thread
// is found by its key, and the next one follows the end of the one before.
const (
	threadKeysFor = time.Second
	runKeysFor    = 20 * time.Millisecond
)

// Keys gives out keys for new rows, outside of transactions, so that it waits for no commit.
type Keys struct {
	table  string
	serves time.Duration // how long keys that were taken serve

	mu    sync.Mutex // guards the fields below
	known bool       // whether last is, on SQLite
	last  int64      // the last key that was given or taken
	free  []int64    // taken on PostgreSQL, and not given yet
	taken time.Time  // when free was taken

	noted int64 // up to which keys SQLite notes that they are given; guarded by the writer's lock
}

// Next returns a key, which it never returns again: see [data.Store]. It reads keys by pool, beside the commits.
func (k *Keys) Next(ctx context.Context, pool *sqldb.Pool) (key int64, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if pool.DB.Single {
		if !k.known {
			return 0, errors.New("a key before Join")
		}
		k.last++
		return k.last, nil
	}
	if len(k.free) == 0 || time.Since(k.taken) > k.serves {
		now := time.Now()
		if k.free, err = sqldb.All(ctx, pool.Unprepared(), sqldb.Scalar[int64], reserveKeys, k.table, keysAtOnce); err != nil {
			return 0, err
		}
		k.taken = now
	}
	key, k.free = k.free[0], k.free[1:]
	return key, nil
}

// Count finds out which key of a SQLite table comes next. From then on only this process inserts rows.
func (k *Keys) Count(tx *sqldb.Tx) error {
	if !tx.DB.Single {
		return nil
	}
	last, err := sqldb.All(tx.Context(), tx, sqldb.Scalar[int64], selectLastKey, k.table)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known = true
	for _, key := range last {
		k.last = max(k.last, key)
	}
	k.noted = k.last
	return nil
}

// note stores in SQLite that keys are given, before rows with these keys are inserted: a deleted row's key is not given again.
func (k *Keys) note(tx *Tx, given []int64) error {
	if !tx.DB.Single || len(given) == 0 {
		return nil
	}
	last := slices.Max(given)
	if last <= k.noted {
		return nil
	}
	last += keysAhead
	if err := tx.Exec(giveKeys, last, k.table, last); err != nil {
		return err
	}
	tx.committed = append(tx.committed, func() { k.noted = last })
	return nil
}
