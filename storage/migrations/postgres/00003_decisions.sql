-- +goose Up
-- A server of an older version may not write any more while its database changes.
UPDATE instances SET fenced = TRUE;

-- A decision reads the rows of runs and threads, which are therefore small: what can be large is apart.
CREATE TABLE run_inputs (
    run_key          bigint PRIMARY KEY REFERENCES runs (key) ON DELETE CASCADE,
    input            text,
    definition       text,
    input_query      text NOT NULL,
    context_item_ids text,
    metadata         text,
    parent_run       text COLLATE "C" NOT NULL
);
INSERT INTO run_inputs (run_key, input, definition, input_query, context_item_ids, metadata, parent_run)
SELECT key, input, definition, input_query, context_item_ids, metadata, parent_run FROM runs;
ALTER TABLE runs DROP COLUMN input;
ALTER TABLE runs DROP COLUMN definition;
ALTER TABLE runs DROP COLUMN input_query;
ALTER TABLE runs DROP COLUMN context_item_ids;
ALTER TABLE runs DROP COLUMN metadata;
ALTER TABLE runs DROP COLUMN parent_run;
ALTER TABLE runs DROP COLUMN background;

ALTER TABLE runs ADD COLUMN spans integer NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN span_name text NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN turn bigint NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN replaces text;
ALTER TABLE runs ADD COLUMN roll_back boolean NOT NULL DEFAULT FALSE;
UPDATE runs SET spans = counted.n
FROM (SELECT run_key, max(n) AS n FROM run_spans GROUP BY run_key) AS counted
WHERE runs.key = counted.run_key;

CREATE TABLE thread_states (
    thread_key bigint PRIMARY KEY REFERENCES threads (key) ON DELETE CASCADE,
    state      text
);
INSERT INTO thread_states (thread_key, state) SELECT key, state FROM threads WHERE state IS NOT NULL;
ALTER TABLE threads DROP COLUMN state;
-- Beside last_seq, which counts events.
ALTER TABLE threads ADD COLUMN last_message_seq bigint NOT NULL DEFAULT 0;
UPDATE threads SET last_message_seq = counted.seq
FROM (SELECT thread_key, max(seq) AS seq FROM messages GROUP BY thread_key) AS counted
WHERE threads.key = counted.thread_key;

ALTER TABLE run_names ADD COLUMN body_hash text NOT NULL DEFAULT '';
ALTER TABLE idempotency_keys DROP COLUMN status;

CREATE INDEX messages_queued ON messages (run_key, key) WHERE state = 'queued';
CREATE INDEX interrupts_id ON interrupts (interrupt_id);

-- One span of a thread is open at most. Where two were, the earlier one ends where the next begins.
UPDATE run_spans SET last_event_id = (
    SELECT min(later.first_event_id) - 1 FROM run_spans later
    WHERE later.thread_key = run_spans.thread_key AND later.first_event_id > run_spans.first_event_id)
WHERE last_event_id = 0 AND EXISTS (
    SELECT 1 FROM run_spans later
    WHERE later.thread_key = run_spans.thread_key AND later.first_event_id > run_spans.first_event_id);
CREATE UNIQUE INDEX run_spans_open ON run_spans (thread_key) WHERE last_event_id = 0;
