package storage

import (
	"context"
	"database/sql"
	"errors"

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
)

// saved stores the views of users. They are not part of an instance's data.
type saved beside

// PutViews replaces all views of a user.
func (s saved) PutViews(ctx context.Context, project, user string, views []data.SavedView) error {
	return accounts(s).change(ctx, func(tx *sqldb.Tx) error {
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
