package storage

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const (
	upsertViews = `
INSERT INTO saved_views (project_id, user_id, views)
VALUES (?, ?, ?)
ON CONFLICT (project_id, user_id) DO UPDATE SET views = excluded.views`

	deleteViews = `
DELETE FROM saved_views WHERE project_id = ? AND user_id = ?`

	selectViews = `
SELECT views FROM saved_views WHERE project_id = ? AND user_id = ?`

	selectSecret = `
SELECT value FROM secrets WHERE purpose = ?`

	insertSecret = `
INSERT INTO secrets (purpose, value, created_at)
VALUES (?, ?, ?)
ON CONFLICT (purpose) DO NOTHING`

	deleteSecrets = `
DELETE FROM secrets WHERE purpose >= ''`
)

// saved stores the views of users, and secrets. They are not part of an instance's data.
type saved struct{ beside }

// Saved returns the store of secrets and of users' views.
func (db *DB) Saved() data.Saved { return saved{db.beside} }

// PutViews replaces all views of a user.
func (s saved) PutViews(ctx context.Context, project, user string, views []data.SavedView) error {
	return s.change(ctx, func(tx *sqldb.Tx) error {
		if len(views) == 0 {
			return tx.Exec(deleteViews, project, user)
		}
		return tx.Exec(upsertViews, project, user, sqldb.JSON(views))
	})
}

// Views returns the views of a user, in the order in which they were put.
func (s saved) Views(ctx context.Context, project, user string) ([]data.SavedView, error) {
	views, err := sqldb.One(ctx, s.read, scanViews, selectViews, project, user)
	if errors.Is(err, data.ErrNotFound) {
		return nil, nil
	}
	return views, err
}

func scanViews(rows *sql.Rows) (views []data.SavedView, err error) {
	return sqldb.Scan(rows, &views, sqldb.Into(&views))
}

// Secret returns the secret of a purpose, or data.ErrNotFound.
func (s saved) Secret(ctx context.Context, purpose string) (string, error) {
	return sqldb.One(ctx, s.read, sqldb.Scalar[string], selectSecret, purpose)
}

// PutSecret stores the secret for a purpose, unless there is one already.
func (s saved) PutSecret(ctx context.Context, purpose, value string) error {
	return s.change(ctx, func(tx *sqldb.Tx) error { return tx.Exec(insertSecret, purpose, value, sqldb.Time(time.Now())) })
}

// RemoveSecrets removes the secrets for all purposes. Servers create new ones on demand.
func (s saved) RemoveSecrets(ctx context.Context) error {
	return s.change(ctx, func(tx *sqldb.Tx) error { return tx.Exec(deleteSecrets) })
}
