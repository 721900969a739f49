package storage

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const attachmentColumns = `key, project_id, user_id, path, filename, type, size, created_at, used_at`

const (
	// The rows of a user are no more than the quota has files: results of tools are behind them.
	selectAttached = `
SELECT count(*), CAST(COALESCE(sum(size), 0) AS bigint) FROM attachments
WHERE project_id = ? AND user_id = ? AND path < '` + data.Results + `' AND state <> 'gone'`

	insertAttachment = `
INSERT INTO attachments (project_id, user_id, path, filename, type, size, state, created_at, used_at)
VALUES (?, ?, ?, ?, ?, ?, 'reserved', ?, ?)
RETURNING key`

	keepAttachment = `
UPDATE attachments SET state = 'kept', size = ? WHERE key = ? AND state = 'reserved'`

	loseAttachments = `
UPDATE attachments SET state = 'gone' WHERE key = ANY (?)`

	selectAttachment = `
SELECT ` + attachmentColumns + ` FROM attachments WHERE project_id = ? AND path = ? AND state IN ('kept', 'used') LIMIT 1`

	// A path of a result ends in 32 characters for its call, "-", a UUID and ".txt".
	selectResults = `
SELECT ` + attachmentColumns + ` FROM attachments
WHERE key IN (SELECT u.attachment_key FROM runs r JOIN attachment_uses u ON u.run_key = r.key WHERE r.thread_key = ?)
	AND path > '` + data.Results + `' AND substr(path, length(path) - 72, 32) = ANY (?) AND state IN ('kept', 'used')
ORDER BY key LIMIT ?`

	touchAttachments = `
UPDATE attachments SET used_at = ?
WHERE project_id = ? AND path = ANY (?) AND user_id = ? AND state IN ('kept', 'used')
RETURNING ` + attachmentColumns

	// Another run refers to it.
	tightenUsed = `
UPDATE attachments SET state = 'used' WHERE key IN (
	SELECT key FROM attachments WHERE state <> 'used' AND state = 'kept' AND used_at < ?
		AND EXISTS (SELECT 1 FROM attachment_uses u WHERE u.attachment_key = attachments.key)
	ORDER BY state, used_at, key LIMIT ?)`

	loseUnused = `
UPDATE attachments SET state = 'gone' WHERE key IN (
	SELECT key FROM attachments WHERE state <> 'used' AND state IN ('kept', 'reserved') AND used_at < ?
		AND NOT EXISTS (SELECT 1 FROM attachment_uses u WHERE u.attachment_key = attachments.key)
	ORDER BY state, used_at, key LIMIT ?)`

	selectGone = `
SELECT ` + attachmentColumns + ` FROM attachments
WHERE state <> 'used' AND state = 'gone' AND (used_at, key) > (?, ?) ORDER BY used_at, key LIMIT ?`

	deleteUses = `
DELETE FROM attachment_uses WHERE attachment_key = ANY (?)`

	deleteAttachments = `
DELETE FROM attachments WHERE key = ANY (?) AND state = 'gone'`

	expireOfUser = `
UPDATE attachments SET state = 'gone' WHERE key IN (
	SELECT key FROM attachments WHERE project_id = ? AND user_id = ? AND created_at < ? AND state <> 'gone'
	ORDER BY created_at LIMIT ?)`

	expireOfProject = `
UPDATE attachments SET state = 'gone' WHERE key IN (
	SELECT key FROM attachments WHERE project_id = ? AND created_at < ? AND state <> 'gone' ORDER BY created_at LIMIT ?)`

	countOfUser = `
SELECT count(*) FROM attachments WHERE project_id = ? AND user_id = ? AND created_at < ? AND state <> 'gone'`

	countOfProject = `
SELECT count(*) FROM attachments WHERE project_id = ? AND created_at < ? AND state <> 'gone'`
)

var _ data.Attachments = Attachments{}

func scanAttachment(rows *sql.Rows) (a data.Attachment, err error) {
	return sqldb.Scan(rows, &a, &a.Key, &a.Project, &a.User, &a.Path, &a.Filename, &a.Type, &a.Size, sqldb.Into(&a.CreatedAt), sqldb.Into(&a.UsedAt))
}

func scanAmount(rows *sql.Rows) (q data.Quota, err error) {
	return sqldb.Scan(rows, &q, &q.Files, &q.Bytes)
}

// Attachments stores the metadata of attachments.
type Attachments struct{ beside }

// ReserveAttachment implements [data.Attachments].
func (as Attachments) ReserveAttachment(ctx context.Context, a *data.Attachment, most data.Quota) error {
	args := []any{a.Project, a.User, a.Path, a.Filename, a.Type, a.Size, sqldb.Time(a.CreatedAt), sqldb.Time(a.CreatedAt)}
	if err := sqldb.CheckText(args...); err != nil {
		return err
	}
	return as.w.Aside(ctx, func(tx *sqldb.Tx) error {
		if most != (data.Quota{}) {
			has, err := sqldb.One(ctx, tx, scanAmount, selectAttached, a.Project, a.User)
			if err != nil {
				return err
			}
			if has.Files >= most.Files || has.Bytes+a.Size > most.Bytes {
				return tx.Fail(data.ErrQuota)
			}
		}
		var err error
		a.Key, err = sqldb.One(ctx, tx, sqldb.Scalar[int64], insertAttachment, args...)
		return err
	})
}

// AttachmentsOf implements [data.Attachments].
func (as Attachments) AttachmentsOf(ctx context.Context, project, user string) (data.Quota, error) {
	if err := sqldb.CheckText(project, user); err != nil {
		return data.Quota{}, err
	}
	return sqldb.One(ctx, as.read, scanAmount, selectAttached, project, user)
}

// KeepAttachment implements [data.Attachments].
func (as Attachments) KeepAttachment(ctx context.Context, key, size int64) error {
	return as.w.Aside(ctx, func(tx *sqldb.Tx) error {
		n, err := tx.Count(keepAttachment, size, key)
		if err == nil && n == 0 {
			err = tx.Fail(data.ErrNotFound)
		}
		return err
	})
}

// LoseAttachments implements [data.Attachments].
func (as Attachments) LoseAttachments(ctx context.Context, keys ...int64) error {
	return as.w.Aside(ctx, func(tx *sqldb.Tx) error { return tx.Exec(loseAttachments, as.read.DB.List(keys)) })
}

// AttachmentByPath implements [data.Attachments].
func (as Attachments) AttachmentByPath(ctx context.Context, project, path string) (data.Attachment, error) {
	if sqldb.CheckText(project, path) != nil {
		return data.Attachment{}, data.ErrNotFound
	}
	return sqldb.One(ctx, as.read, scanAttachment, selectAttachment, project, path)
}

// ResultFiles implements [data.Attachments].
func (as Attachments) ResultFiles(ctx context.Context, thread int64, calls []string, limit int) ([]data.Attachment, error) {
	return sqldb.All(ctx, as.read, scanAttachment, selectResults, thread, as.read.DB.List(calls), limit)
}

// UseAttachments implements [data.Attachments].
func (as Attachments) UseAttachments(ctx context.Context, project, user string, paths []string) (list []data.Attachment, err error) {
	paths = slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return sqldb.CheckText(p) != nil })
	if len(paths) == 0 {
		return nil, nil
	}
	err = as.w.Aside(ctx, func(tx *sqldb.Tx) error {
		list, err = sqldb.All(ctx, tx, scanAttachment, touchAttachments, sqldb.Time(time.Now()), project, as.read.DB.List(paths), user)
		return err
	})
	return list, err
}

// CollectAttachments implements [data.Attachments].
func (as Attachments) CollectAttachments(ctx context.Context, before time.Time, behind *data.Attachment, limit int) (list []data.Attachment, err error) {
	err = as.w.Aside(ctx, func(tx *sqldb.Tx) error {
		if err := tx.Exec(tightenUsed, sqldb.Time(before), limit); err != nil {
			return err
		}
		if err := tx.Exec(loseUnused, sqldb.Time(before), limit); err != nil {
			return err
		}
		list, err = sqldb.All(ctx, tx, scanAttachment, selectGone, sqldb.Time(behind.UsedAt), behind.Key, limit)
		return err
	})
	return list, err
}

// ForgetAttachments implements [data.Attachments].
func (as Attachments) ForgetAttachments(ctx context.Context, keys ...int64) error {
	return as.w.Aside(ctx, func(tx *sqldb.Tx) error {
		if err := tx.Exec(deleteUses, as.read.DB.List(keys)); err != nil {
			return err
		}
		return tx.Exec(deleteAttachments, as.read.DB.List(keys))
	})
}

// ExpireAttachments implements [data.Attachments].
func (as Attachments) ExpireAttachments(ctx context.Context, project, user string, before time.Time, dry bool) (n int, err error) {
	count, expire, args := countOfUser, expireOfUser, []any{project, user, sqldb.Time(before)}
	if user == "" {
		count, expire, args = countOfProject, expireOfProject, []any{project, sqldb.Time(before)}
	}
	if dry {
		return sqldb.One(ctx, as.read, sqldb.Scalar[int], count, args...)
	}
	return as.w.Tidy(ctx, expire, args...)
}
