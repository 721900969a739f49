package rows

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

// A call of a model is a row of prompts, which refers to the prompt: to messages of the thread, and to pieces. A piece
// goes with the last run that uses it. The table model_calls has other rows: usage that is still to be counted.

const promptColumns = `run_key, id, step, status, provider, model, finish_reason, usage, error, sent, changes, answer, first_token_ms, duration_ms, started_at`

const (
	insertPrompt = `
INSERT INTO prompts (` + promptColumns + `)
VALUES (?::bigint, ?::text, ?::bigint, ?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::text, ?::bigint, ?::bigint,
	?::timestamptz)`

	endPrompt = `
UPDATE prompts SET status = ?::text, provider = COALESCE(?::text, provider), model = COALESCE(?::text, model), finish_reason = ?::text,
	usage = ?::text, error = ?::text, changes = COALESCE(?::text, changes), answer = ?::text, first_token_ms = ?::bigint, duration_ms = ?::bigint
WHERE run_key = ?::bigint AND id = ?::text`

	insertPiece = `
INSERT INTO prompt_pieces (id, body)
VALUES (?::text, ?::text)
ON CONFLICT (id) DO NOTHING`

	insertPieceUse = `
INSERT INTO prompt_uses (run_key, piece)
VALUES (?::bigint, ?::text)
ON CONFLICT (run_key, piece) DO NOTHING`

	selectRunKeys = `
SELECT key FROM runs WHERE key = ANY (?)`

	selectPrompts = `
SELECT ` + promptColumns + `, (` + countPrompts + `), sized.found
FROM (SELECT sized_run, at, found
	FROM (SELECT sized_run, at, sum(size) OVER (ORDER BY at) - size AS behind, count(*) OVER () AS found
		FROM (SELECT run_key AS sized_run, id AS at, octet_length(sent) + COALESCE(octet_length(changes), 0) + COALESCE(octet_length(answer), 0) AS size FROM prompts
			WHERE run_key = ` + runOfProject + ` AND id > ? ORDER BY id LIMIT ?) AS plain) AS counted
	WHERE behind < ? ORDER BY at` + sqldb.SizedFirst + `
JOIN prompts ON run_key = sized_run AND id = at ORDER BY at`

	countPrompts = `
SELECT count(*) FROM (SELECT 1 FROM prompts WHERE run_key = ` + runOfProject + ` LIMIT ?) AS counted`

	selectPrompt = `
SELECT ` + promptColumns + ` FROM prompts WHERE run_key = ` + runOfProject + ` AND id = ?`

	selectPieces = `
SELECT id, body, 0, sized.found
FROM (SELECT at, found
	FROM (SELECT at, sum(size) OVER (ORDER BY at) - size AS behind, count(*) OVER () AS found
		FROM (SELECT id AS at, octet_length(body) AS size FROM prompt_pieces
			WHERE id = ANY (?) AND EXISTS (
				SELECT 1 FROM prompt_uses u CROSS JOIN runs r WHERE u.piece = prompt_pieces.id AND r.key = u.run_key AND r.thread_key = ` + threadOfProject + `)
			ORDER BY id LIMIT ?) AS plain) AS counted
	WHERE behind < ? ORDER BY at` + sqldb.SizedFirst + `
JOIN prompt_pieces ON id = at ORDER BY at`

	selectMessagesBySeq = `
SELECT ` + messageColumns + `, key FROM messages WHERE thread_key = ` + threadOfProject + ` AND seq = ANY (?)` + newestFirst

	selectBySeqUntilFull = newestFrom + selectMessagesBySeq + newestUntilFull
)

func promptCells(p *data.Prompt) []any {
	cells := append([]any{p.RunKey, p.ID, p.Step}, resultCellsOf(&p.PromptResult)...)
	return append(cells[:9:9], p.Sent, sqldb.JSON(p.Changes), sqldb.OrNull(p.Answer), msLong(p.FirstToken), msLong(p.Took), sqldb.Time(p.StartedAt))
}

// resultCellsOf returns the first columns of a call's end. The usage does not repeat the columns before it.
func resultCellsOf(r *data.PromptResult) []any {
	var usage any
	if counts := r.Usage; counts != (agui.TokenUsage{}) {
		counts.Provider, counts.Model = "", ""
		usage = sqldb.JSON(&counts)
	}
	return []any{r.Status, sqldb.OrNull(r.Provider), sqldb.OrNull(r.Model), sqldb.OrNull(r.FinishReason), usage, sqldb.JSON(r.Error)}
}

func promptEndCells(e *data.PromptEnd) []any {
	return append(resultCellsOf(&e.PromptResult), sqldb.JSON(e.Changes), sqldb.OrNull(e.Answer), msLong(e.FirstToken), msLong(e.Took), e.RunKey, e.ID)
}

// msLong is a duration in milliseconds, NULL for none. One of less than a millisecond is one.
func msLong(d time.Duration) any {
	if d <= 0 {
		return nil
	}
	return max(d.Milliseconds(), 1)
}

func pieceCells(p *data.PromptPiece) []any    { return []any{p.ID, string(p.Body)} }
func pieceUseCells(p *data.PromptPiece) []any { return []any{p.RunKey, p.ID} }

// dropPieces drops the pieces of runs that are gone. A run whose prompt is stored with them is there.
func (tx *Tx) dropPieces() error {
	p := tx.pending
	others := make(map[int64]bool)
	for i := range p.pieces {
		key := p.pieces[i].RunKey
		others[key] = !slices.ContainsFunc(p.prompts.rows, func(c data.Prompt) bool { return c.RunKey == key })
	}
	maps.DeleteFunc(others, func(_ int64, other bool) bool { return !other })
	if len(others) == 0 {
		return nil
	}
	there, err := sqldb.Find(tx.Context(), tx, sqldb.Scalar[int64], selectRunKeys, keysOf(slices.Collect(maps.Keys(others))))
	if err != nil {
		return err
	}
	p.pieces = slices.DeleteFunc(p.pieces, func(c data.PromptPiece) bool { return others[c.RunKey] && !slices.Contains(there, c.RunKey) })
	return nil
}

func scanPromptAnd(rows *sql.Rows, more ...any) (p data.Prompt, err error) {
	var provider, name, finish, answer sql.NullString
	var first, took sql.NullInt64
	err = rows.Scan(append([]any{
		&p.RunKey, &p.ID, &p.Step, &p.Status, &provider, &name, &finish, sqldb.Into(&p.Usage), sqldb.Into(&p.Error), &p.Sent,
		sqldb.Into(&p.Changes), &answer, &first, &took, sqldb.Into(&p.StartedAt),
	}, more...)...)
	p.Provider, p.Model, p.FinishReason, p.Answer = provider.String, name.String, finish.String, answer.String
	p.FirstToken, p.Took = time.Duration(first.Int64)*time.Millisecond, time.Duration(took.Int64)*time.Millisecond
	if p.Usage != (agui.TokenUsage{}) {
		p.Usage.Provider, p.Usage.Model = p.Provider, p.Model
	}
	return p, err
}

func scanPrompt(rows *sql.Rows) (data.Prompt, error) { return scanPromptAnd(rows) }

// Prompts lists a run's calls of models with an id behind after: see [data.ByProject].
func (r *Project) Prompts(ctx context.Context, project string, runKey int64, after string, limit int) (data.Page[data.Prompt], error) {
	p, err := sqldb.PageOf(ctx, r.q, scanPromptAnd, data.PageBytes, limit, selectPrompts, runKey, project, sqldb.MaxCount, runKey, project, after)
	return sqldb.Counted(ctx, r.q, p, err, true, countPrompts, runKey, project, sqldb.MaxCount)
}

// Prompt returns a call of a model: see [data.ByProject].
func (r *Project) Prompt(ctx context.Context, project string, runKey int64, id string) (data.Prompt, error) {
	if sqldb.CheckText(id) != nil {
		return data.Prompt{}, data.ErrNotFound
	}
	return sqldb.One(ctx, r.q, scanPrompt, selectPrompt, runKey, project, id)
}

// PromptPieces returns pieces that runs of a thread use: see [data.ByProject].
func (r *Project) PromptPieces(ctx context.Context, project string, threadKey int64, ids []string) (data.Page[data.PromptPiece], error) {
	return sqldb.PageOf(ctx, r.q, func(rows *sql.Rows, more ...any) (p data.PromptPiece, err error) {
		err = rows.Scan(append([]any{&p.ID, sqldb.Into(&p.Body)}, more...)...)
		return p, err
	}, data.PageBytes, len(ids), selectPieces, r.d.List(ids), threadKey, project)
}

// MessagesBySeq returns messages of a thread: see [data.ByProject].
func (r *Project) MessagesBySeq(ctx context.Context, project string, threadKey int64, seqs []int64) (data.Page[data.Message], error) {
	return messagePage(ctx, r.q, r.d, data.PageBytes, len(seqs), messages{selectMessagesBySeq, selectBySeqUntilFull}, threadKey, project, r.d.List(seqs))
}
