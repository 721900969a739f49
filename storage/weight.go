package storage

import (
	"context"
	"database/sql"

	"github.com/batonrun/baton/runtime/model"
)

// selectWeight reads sizes from columns beside the large values, which it does not read.
const selectWeight = `
SELECT
	COALESCE((SELECT COALESCE(octet_length(input), 0) + COALESCE(octet_length(definition), 0)
		FROM run_inputs WHERE run_key = ?), 0)
	+ COALESCE((SELECT octet_length(state) FROM thread_states WHERE thread_key = ?), 0)
	+ COALESCE((SELECT sum(size) FROM (SELECT octet_length(message) + ? AS size FROM messages
		WHERE run_key = ? AND state = 'queued' LIMIT ?) AS plain), 0)
	+ COALESCE((SELECT sum(size) FROM (SELECT octet_length(output) AS size FROM memos
		WHERE run_key = ? AND generation = (SELECT generation FROM runs WHERE key = ?) LIMIT ?) AS plain), 0),
	COALESCE((SELECT sum(size) FROM (SELECT octet_length(message) + ? AS size FROM messages
		WHERE thread_key = ? AND state = 'consumed' ORDER BY seq DESC LIMIT ?) AS plain), 0),
	COALESCE((SELECT sum(size) FROM (SELECT octet_length(message) AS size FROM messages
		WHERE run_key = ? AND state = 'consumed'
			AND event_id > COALESCE((SELECT min(first_event_id) FROM run_spans
				WHERE run_key = ? AND generation = (SELECT generation FROM runs WHERE key = ?)), 0)
			AND event_id NOT IN (SELECT first_event_id FROM run_spans WHERE run_key = ?) LIMIT ?) AS plain), 0)`

// Weight returns the size of a run's input and output. Its input is its own, its records, the thread's state, queued
// messages, and the thread's messages up to the limit for workers. Its output is its generation's messages, except
// those with which its spans begin: these are input.
func (r keyed) Weight(ctx context.Context, threadKey, runKey int64) (model.Weight, error) {
	return one(ctx, r.q, func(rows *sql.Rows) (w model.Weight, err error) {
		var history int64
		err = rows.Scan(&w.Asked, &history, &w.Said)
		w.Asked += min(history, model.ThreadBytes)
		return w, err
	}, selectWeight, runKey, threadKey, model.MessageBytes, runKey, weighed, runKey, runKey, weighed, model.MessageBytes, threadKey, latest, runKey, runKey, runKey, runKey, weighed)
}

// How many rows are weighed: of a thread's messages as many as a worker is given, and else more than a run can have.
const (
	latest  = 2000
	weighed = 1_000_000
)
