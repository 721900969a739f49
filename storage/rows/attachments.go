package rows

import "github.com/batonrun/baton/runtime/data"

const (
	insertUse = `
INSERT INTO attachment_uses (run_key, attachment_key)
VALUES (?::bigint, ?::bigint)
ON CONFLICT (run_key, attachment_key) DO NOTHING`

	useAttachment = `
UPDATE attachments SET state = CASE state WHEN 'kept' THEN 'used' ELSE state END
WHERE key = ?::bigint`
)

func useCells(u *data.AttachmentUse) []any  { return []any{u.RunKey, u.Key} }
func usedCells(u *data.AttachmentUse) []any { return []any{u.Key} }
