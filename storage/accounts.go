package storage

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/batonrun/baton/runtime/model"
)

const (
	insertAPIKey = `
INSERT INTO api_keys (id, hash, user_id, projects, role, created_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?)`

	selectAPIKeys = `
SELECT id, hash, user_id, projects, role, created_at, expires_at, revoked_at FROM api_keys WHERE id = ANY (?)`

	listAPIKeys = `
SELECT id, hash, user_id, projects, role, created_at, expires_at, revoked_at FROM api_keys WHERE id > ? ORDER BY id LIMIT ?`

	revokeAPIKey = `
UPDATE api_keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL`

	selectSecret = `
SELECT value FROM secrets WHERE purpose = ?`

	insertSecret = `
INSERT INTO secrets (purpose, value, created_at)
VALUES (?, ?, ?)
ON CONFLICT (purpose) DO NOTHING`

	replaceSecret = `
INSERT INTO secrets (purpose, value, created_at)
VALUES (?, ?, ?)
ON CONFLICT (purpose) DO UPDATE SET value = excluded.value, created_at = excluded.created_at`
)

// Keys and secrets are written by whoever has the database open, also beside the server that has it for itself: they
// are no part of what an instance writes, and no commit is based on them.

// PutAPIKey keeps a key, whose ID must be new.
func (db *DB) PutAPIKey(ctx context.Context, k *model.APIKey) error {
	_, err := db.account(ctx, insertAPIKey, k.ID, k.Hash, k.User, jsonOf(k.Projects), k.Role, ms(k.CreatedAt), msOrNull(k.ExpiresAt))
	return err
}

// RevokeAPIKey revokes a key at a time. It fails with model.ErrNotFound when there is none that could be.
func (db *DB) RevokeAPIKey(ctx context.Context, id string, at time.Time) error {
	n, err := db.account(ctx, revokeAPIKey, ms(at), id)
	if err == nil && n == 0 {
		err = model.ErrNotFound
	}
	return err
}

// APIKeys returns those of the keys that exist, revoked ones too, in no order.
func (r reader) APIKeys(ctx context.Context, ids []string) ([]model.APIKey, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return all(ctx, r.q, scanAPIKey, selectAPIKeys, r.d.list(ids))
}

// APIKeysAfter returns up to limit keys behind the one given, revoked ones too, in the order of their IDs.
func (r reader) APIKeysAfter(ctx context.Context, id string, limit int) ([]model.APIKey, error) {
	return all(ctx, r.q, scanAPIKey, listAPIKeys, id, limit)
}

func scanAPIKey(rows *sql.Rows) (k model.APIKey, err error) {
	err = rows.Scan(&k.ID, &k.Hash, &k.User, jsonInto{&k.Projects}, &k.Role,
		timeInto{&k.CreatedAt}, timePtrInto{&k.ExpiresAt}, timePtrInto{&k.RevokedAt})
	return k, err
}

// Secret returns what is signed with for a purpose. It fails with model.ErrNotFound when there is nothing yet.
func (r reader) Secret(ctx context.Context, purpose string) (string, error) {
	return one(ctx, r.q, scalar[string], selectSecret, purpose)
}

// PutSecret keeps what is signed with for a purpose from now on, in the place of what was there if replace is set, and
// else unless there is something.
func (db *DB) PutSecret(ctx context.Context, purpose, value string, replace bool) error {
	query := insertSecret
	if replace {
		query = replaceSecret
	}
	_, err := db.account(ctx, query, purpose, value, ms(time.Now()))
	return err
}

// account runs one statement that writes in a transaction of its own, and returns how many rows it has changed.
func (db *DB) account(ctx context.Context, query string, args ...any) (n int, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return 0, fmt.Errorf("%w: it is closed", model.ErrUnavailable)
	}
	err = db.transact(ctx, func(tx *tx) (err error) {
		n, err = tx.count(query, args...)
		return err
	})
	return n, err
}
