package storage

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/members"
	"github.com/batonrun/baton/storage/rows"
	"github.com/batonrun/baton/storage/sqldb"
)

const (
	insertAPIKey = `
INSERT INTO api_keys (id, name, hash, user_id, projects, role, created_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)`

	insertAPIKeyProject = `
INSERT INTO api_key_projects (project_id, id)
VALUES (?, ?)`

	selectAPIKeys = `
SELECT id, name, hash, user_id, projects, role, created_at, expires_at, revoked_at, 0 FROM api_keys WHERE id = ANY (?)`

	listAPIKeys = `
SELECT id, name, hash, user_id, projects, role, created_at, expires_at, revoked_at, 0 FROM api_keys WHERE id > ? ORDER BY id LIMIT ?`

	listProjectKeys = `
SELECT k.id, k.name, k.hash, k.user_id, k.projects, k.role, k.created_at, k.expires_at, k.revoked_at, p.key
FROM api_key_projects p JOIN api_keys k ON k.id = p.id
WHERE p.project_id = ? AND p.key < ? ORDER BY p.key DESC LIMIT ?`

	countProjectKeys = `
SELECT count(*) FROM (SELECT 1 FROM api_key_projects WHERE project_id = ? LIMIT ?) AS counted`

	revokeAPIKey = `
UPDATE api_keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL`

	// lockRevoked waits for a concurrent revocation of the key.
	lockRevoked = `
SELECT revoked_at IS NOT NULL FROM api_keys WHERE id = ? FOR UPDATE`

	selectRevokedKeys = `
SELECT id FROM api_keys WHERE revoked_at < ? ORDER BY revoked_at LIMIT ?`

	selectExpiredKeys = `
SELECT id FROM api_keys WHERE expires_at < ? ORDER BY expires_at LIMIT ?`

	deleteAPIKeyProjects = `
DELETE FROM api_key_projects WHERE id = ANY (?)`

	deleteAPIKeys = `
DELETE FROM api_keys WHERE id = ANY (?)`
)

// Accounts stores API keys. They are not part of an instance's data: any process with the database open may write them, and no commit is
// based on them.
type Accounts struct{ beside }

// PutAPIKey inserts a key with a new ID, and an audit row unless by is nil. It fails with data.ErrRevoked if the
// requester's own key was revoked, even concurrently, so a revoked key cannot leave another one behind.
func (a Accounts) PutAPIKey(ctx context.Context, k *data.APIKey, by *data.Audit) error {
	return a.change(ctx, func(tx *sqldb.Tx) error {
		if err := stands(tx, by); err != nil {
			return err
		}
		err := tx.Exec(insertAPIKey, k.ID, k.Name, k.Hash, k.User, sqldb.JSON(k.Projects), k.Role, sqldb.Time(k.CreatedAt), sqldb.Time(k.ExpiresAt))
		for _, project := range projectsOf(k) {
			err = cmp.Or(err, tx.Exec(insertAPIKeyProject, project, k.ID))
		}
		return cmp.Or(err, tell(tx, k, by))
	})
}

// projectsOf returns each project of a key once.
func projectsOf(k *data.APIKey) []string {
	return slices.Compact(slices.Sorted(slices.Values(k.Projects)))
}

// tell inserts an audit row for a change of a key: in the requester's project, or without one (the server's operator)
// in each project of the key.
func tell(tx *sqldb.Tx, k *data.APIKey, by *data.Audit) error {
	if by == nil {
		return nil
	}
	row := *by
	row.User, row.Subject = k.User, k.ID
	if by.Project != "" {
		return rows.InsertAudit(tx, &row)
	}
	for _, project := range projectsOf(k) {
		row.Project = project
		if err := rows.InsertAudit(tx, &row); err != nil {
			return err
		}
	}
	return nil
}

// RevokeAPIKey revokes a key at a time, and inserts an audit row unless by is nil. It fails with data.ErrNotFound if
// no valid key has that id, and with data.ErrRevoked like PutAPIKey.
func (a Accounts) RevokeAPIKey(ctx context.Context, id string, at time.Time, by *data.Audit) error {
	return a.change(ctx, func(tx *sqldb.Tx) error {
		if err := stands(tx, by); err != nil {
			return err
		}
		n, err := tx.Count(revokeAPIKey, sqldb.Time(at), id)
		if err != nil {
			return err
		}
		if n == 0 {
			return data.ErrNotFound
		}
		rows, err := sqldb.All(tx.Context(), tx, scanAPIKey, selectAPIKeys, tx.DB.List([]string{id}))
		if err != nil || len(rows) == 0 {
			return err
		}
		return tell(tx, &rows[0], by)
	})
}

// stands fails if the requester's API key was revoked. Other credentials pass.
func stands(tx *sqldb.Tx, by *data.Audit) error {
	if by == nil || by.Credential == "" {
		return nil
	}
	revoked, err := sqldb.One(tx.Context(), tx, sqldb.Scalar[bool], lockRevoked, by.Credential)
	switch {
	case errors.Is(err, data.ErrNotFound):
		return nil
	case err == nil && revoked:
		return data.ErrRevoked
	}
	return err
}

// keysKept is for how long keys are listed that were revoked or have expired: as long as the audit by default, which names them.
const keysKept = 90 * 24 * time.Hour

// forgetAPIKeys deletes keys that have long been invalid.
func (r Retention) forgetAPIKeys(ctx context.Context, now time.Time) error {
	for _, query := range []string{selectRevokedKeys, selectExpiredKeys} {
		err := members.InTurns(ctx, func() (more bool, err error) {
			ids, err := sqldb.All(ctx, r.read, sqldb.Scalar[string], query, sqldb.Time(now.Add(-keysKept)), members.TidyRows)
			if err != nil || len(ids) == 0 {
				return false, err
			}
			return len(ids) == members.TidyRows, r.w.Aside(ctx, func(tx *sqldb.Tx) error {
				return errors.Join(tx.Exec(deleteAPIKeyProjects, tx.DB.List(ids)), tx.Exec(deleteAPIKeys, tx.DB.List(ids)))
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// APIKeys returns the existing keys among ids, revoked ones included, in no order.
func (a Accounts) APIKeys(ctx context.Context, ids []string) ([]data.APIKey, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return sqldb.All(ctx, a.read, scanAPIKey, selectAPIKeys, a.read.DB.List(ids))
}

// APIKeysAfter returns up to limit keys behind the one given, revoked ones too, in the order of their IDs.
func (a Accounts) APIKeysAfter(ctx context.Context, id string, limit int) ([]data.APIKey, error) {
	return sqldb.All(ctx, a.read, scanAPIKey, listAPIKeys, id, limit)
}

// ProjectAPIKeys returns a page of the keys of a project, revoked ones too, latest first, below the Key given; 0 begins with the
// latest.
func (a Accounts) ProjectAPIKeys(ctx context.Context, project string, below int64, limit int) (p data.Page[data.APIKey], err error) {
	if p.Rows, err = sqldb.All(ctx, a.read, scanAPIKey, listProjectKeys, project, cmp.Or(below, math.MaxInt64), limit+1); err != nil {
		return p, err
	}
	if p.More = len(p.Rows) > limit; p.More {
		p.Rows = p.Rows[:limit]
	}
	p.Total, err = sqldb.One(ctx, a.read, sqldb.Scalar[int], countProjectKeys, project, sqldb.MaxCount)
	p.Counted = err == nil
	return p, err
}

func scanAPIKey(rows *sql.Rows) (k data.APIKey, err error) {
	return sqldb.Scan(rows, &k, &k.ID, &k.Name, &k.Hash, &k.User, sqldb.Into(&k.Projects), &k.Role,
		sqldb.Into(&k.CreatedAt), sqldb.Into(&k.ExpiresAt), sqldb.Into(&k.RevokedAt), &k.Key)
}
