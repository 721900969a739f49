package storage

import (
	"context"
	"database/sql"
	"time"

	"github.com/batonrun/baton/runtime/model"
)

const (
	addTokens = `
INSERT INTO tokens (at, project_id, tokens)
VALUES (?::timestamptz, ?::text, ?::bigint)
ON CONFLICT (at, project_id) DO UPDATE SET tokens =
	CASE WHEN tokens.tokens < 1000000000000000000 THEN tokens.tokens + excluded.tokens ELSE tokens.tokens END`

	selectTokens = `
SELECT at, project_id, tokens FROM tokens WHERE (at, project_id) > (?, ?) ORDER BY at, project_id LIMIT ?`

	forgetTokens = `
DELETE FROM tokens WHERE (at, project_id) IN (
	SELECT at, project_id FROM tokens WHERE at < ? ORDER BY at LIMIT ?)`
)

// tokensKept is how long is known what tokens projects have used: longer than it counts, as a clock may be set back.
const tokensKept = 7 * 24 * time.Hour

func tokenCells(t *model.Tokens) []any { return []any{ms(t.At), t.Project, t.Tokens} }

// TokensAfter returns up to limit rows behind one: see [model.Store].
func (r reader) TokensAfter(ctx context.Context, after model.Tokens, limit int) ([]model.Tokens, error) {
	return all(ctx, r.q, func(rows *sql.Rows) (t model.Tokens, err error) {
		err = rows.Scan(timeInto{&t.At}, &t.Project, &t.Tokens)
		return t, err
	}, selectTokens, ms(after.At), after.Project, limit)
}
