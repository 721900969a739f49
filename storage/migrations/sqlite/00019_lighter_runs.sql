-- +goose Up
-- A run that begins and ends writes fewer rows, and fewer entries of indexes. The program deletes what belongs to a row
-- before it, and names no row that is not there: the references that are left are not enforced any more.

-- The runs of an agent are those of the workflow of its name; open runs are found by runs_open.
DROP INDEX runs_agent;
DROP INDEX runs_unfinished;

-- A span that is open is its thread's last.
DROP INDEX run_spans_open;

-- A thread without a row has the state {}.
INSERT INTO thread_states (thread_key, state)
SELECT key, NULL FROM threads WHERE key NOT IN (SELECT thread_key FROM thread_states);
DELETE FROM thread_states WHERE state = '{}';

CREATE TABLE new_names (
    project_id TEXT NOT NULL,
    name       TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    run_key    INTEGER NOT NULL,
    body_hash  TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (project_id, name, user_id)
) STRICT, WITHOUT ROWID;
INSERT INTO new_names SELECT project_id, name, user_id, run_key, body_hash FROM run_names;
DROP TABLE run_names;
ALTER TABLE new_names RENAME TO run_names;
CREATE INDEX run_names_run ON run_names (run_key);

CREATE TABLE new_spans (
    run_key        INTEGER NOT NULL,
    n              INTEGER NOT NULL,
    thread_key     INTEGER NOT NULL,
    run_id         TEXT NOT NULL,
    generation     INTEGER NOT NULL,
    first_event_id INTEGER NOT NULL,
    last_event_id  INTEGER NOT NULL,
    state          TEXT,
    PRIMARY KEY (run_key, n)
) STRICT, WITHOUT ROWID;
INSERT INTO new_spans SELECT run_key, n, thread_key, run_id, generation, first_event_id, last_event_id, state FROM run_spans;
DROP TABLE run_spans;
ALTER TABLE new_spans RENAME TO run_spans;
CREATE UNIQUE INDEX run_spans_thread ON run_spans (thread_key, first_event_id);

-- A node's state is mostly what its latest step says. Then the step tells it, and there is no row of the node's, or an
-- older one.
CREATE TABLE new_steps (
    run_key      INTEGER NOT NULL,
    number       INTEGER NOT NULL,
    id           TEXT NOT NULL,
    generation   INTEGER NOT NULL,
    node_id      TEXT NOT NULL,
    name         TEXT NOT NULL,
    execution    INTEGER NOT NULL,
    status       TEXT NOT NULL,
    input        TEXT NOT NULL,
    output       TEXT,
    error        TEXT,
    started_at   INTEGER NOT NULL,
    completed_at INTEGER,
    tells_node   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run_key, number)
) STRICT, WITHOUT ROWID;
INSERT INTO new_steps (run_key, number, id, generation, node_id, name, execution, status, input, output, error, started_at, completed_at)
SELECT run_key, number, id, generation, node_id, name, execution, status, input, output, error, started_at, completed_at FROM steps;
DROP TABLE steps;
ALTER TABLE new_steps RENAME TO steps;
