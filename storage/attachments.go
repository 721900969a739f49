package storage

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
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

	insertUse = `
INSERT INTO attachment_uses (run_key, attachment_key)
VALUES (?::bigint, ?::bigint)
ON CONFLICT (run_key, attachment_key) DO NOTHING`

	useAttachment = `
UPDATE attachments SET state = CASE state WHEN 'kept' THEN 'used' ELSE state END
WHERE key = ?::bigint`

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

var _ data.Attachments = (*DB)(nil)

func scanAttachment(rows *sql.Rows) (a data.Attachment, err error) {
	err = rows.Scan(&a.Key, &a.Project, &a.User, &a.Path, &a.Filename, &a.Type, &a.Size, timeInto{&a.CreatedAt}, timeInto{&a.UsedAt})
	return a, err
}

func useCells(u *data.AttachmentUse) []any  { return []any{u.RunKey, u.Key} }
func usedCells(u *data.AttachmentUse) []any { return []any{u.Key} }

func scanAmount(rows *sql.Rows) (q data.Quota, err error) {
	err = rows.Scan(&q.Files, &q.Bytes)
	return q, err
}

// attachments stores the metadata of attachments.
type attachments beside

// ReserveAttachment implements [data.Attachments].
func (as attachments) ReserveAttachment(ctx context.Context, a *data.Attachment, most data.Quota) error {
	args := []any{a.Project, a.User, a.Path, a.Filename, a.Type, a.Size, ms(a.CreatedAt), ms(a.CreatedAt)}
	if err := checkText(args); err != nil {
		return err
	}
	return as.aside(ctx, func(tx *tx) error {
		if most != (data.Quota{}) {
			has, err := one(ctx, tx, scanAmount, selectAttached, a.Project, a.User)
			if err != nil {
				return err
			}
			if has.Files >= most.Files || has.Bytes+a.Size > most.Bytes {
				return tx.fail(data.ErrQuota)
			}
		}
		var err error
		a.Key, err = one(ctx, tx, scalar[int64], insertAttachment, args...)
		return err
	})
}

// AttachmentsOf implements [data.Attachments].
func (as attachments) AttachmentsOf(ctx context.Context, project, user string) (data.Quota, error) {
	if err := checkText([]any{project, user}); err != nil {
		return data.Quota{}, err
	}
	return one(ctx, as.read, scanAmount, selectAttached, project, user)
}

// KeepAttachment implements [data.Attachments].
func (as attachments) KeepAttachment(ctx context.Context, key, size int64) error {
	return as.aside(ctx, func(tx *tx) error {
		n, err := tx.count(keepAttachment, size, key)
		if err == nil && n == 0 {
			err = tx.fail(data.ErrNotFound)
		}
		return err
	})
}

// LoseAttachments implements [data.Attachments].
func (as attachments) LoseAttachments(ctx context.Context, keys ...int64) error {
	return as.aside(ctx, func(tx *tx) error { return tx.exec(loseAttachments, as.d.list(keys)) })
}

// AttachmentByPath implements [data.Attachments].
func (as attachments) AttachmentByPath(ctx context.Context, project, path string) (data.Attachment, error) {
	if checkText([]any{project, path}) != nil {
		return data.Attachment{}, data.ErrNotFound
	}
	return one(ctx, as.read, scanAttachment, selectAttachment, project, path)
}

// ResultFiles implements [data.Attachments].
func (as attachments) ResultFiles(ctx context.Context, thread int64, calls []string, limit int) ([]data.Attachment, error) {
	return all(ctx, as.read, scanAttachment, selectResults, thread, as.d.list(calls), limit)
}

// UseAttachments implements [data.Attachments].
func (as attachments) UseAttachments(ctx context.Context, project, user string, paths []string) (list []data.Attachment, err error) {
	paths = slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return checkString(p) != nil })
	if len(paths) == 0 {
		return nil, nil
	}
	err = as.aside(ctx, func(tx *tx) error {
		list, err = all(ctx, tx, scanAttachment, touchAttachments, ms(time.Now()), project, as.d.list(paths), user)
		return err
	})
	return list, err
}

// CollectAttachments implements [data.Attachments].
func (as attachments) CollectAttachments(ctx context.Context, before time.Time, behind *data.Attachment, limit int) (list []data.Attachment, err error) {
	err = as.aside(ctx, func(tx *tx) error {
		if err := tx.exec(tightenUsed, ms(before), limit); err != nil {
			return err
		}
		if err := tx.exec(loseUnused, ms(before), limit); err != nil {
			return err
		}
		list, err = all(ctx, tx, scanAttachment, selectGone, ms(behind.UsedAt), behind.Key, limit)
		return err
	})
	return list, err
}

// ForgetAttachments implements [data.Attachments].
func (as attachments) ForgetAttachments(ctx context.Context, keys ...int64) error {
	return as.aside(ctx, func(tx *tx) error {
		if err := tx.exec(deleteUses, as.d.list(keys)); err != nil {
			return err
		}
		return tx.exec(deleteAttachments, as.d.list(keys))
	})
}

// ExpireAttachments implements [data.Attachments].
func (as attachments) ExpireAttachments(ctx context.Context, project, user string, before time.Time, dry bool) (n int, err error) {
	count, expire, args := countOfUser, expireOfUser, []any{project, user, ms(before)}
	if user == "" {
		count, expire, args = countOfProject, expireOfProject, []any{project, ms(before)}
	}
	if dry {
		return one(ctx, as.read, scalar[int], count, args...)
	}
	return as.tidy(ctx, expire, args...)
}
