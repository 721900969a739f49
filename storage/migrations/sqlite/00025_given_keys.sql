-- +goose Up
-- A table with AUTOINCREMENT notes with each row how far its keys have come, which costs as much as an index. The program gives
-- threads and runs their keys, and notes a thousand at once: none is ever given again. Messages may have those of others
-- that are gone.
CREATE TABLE given_keys (
    name TEXT PRIMARY KEY,
    last INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO given_keys (name, last) VALUES
    ('threads', COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'threads'), 0)),
    ('runs', COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'runs'), 0));

CREATE TABLE new_threads (
    key              INTEGER PRIMARY KEY,
    project_id       TEXT NOT NULL,
    user_id          TEXT NOT NULL,
    thread_id        TEXT NOT NULL,
    conversation_id  TEXT NOT NULL UNIQUE,
    last_seq         INTEGER NOT NULL,
    last_message_seq INTEGER NOT NULL DEFAULT 0,
    sealed_to        INTEGER NOT NULL DEFAULT 0,
    title            TEXT NOT NULL,
    metadata         TEXT,
    archived         INTEGER NOT NULL DEFAULT 0,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    UNIQUE (project_id, user_id, thread_id)
) STRICT;
INSERT INTO new_threads (key, project_id, user_id, thread_id, conversation_id, last_seq, last_message_seq, sealed_to, title, metadata, archived, created_at, updated_at)
SELECT key, project_id, user_id, thread_id, conversation_id, last_seq, last_message_seq, sealed_to, title, metadata, archived, created_at, updated_at FROM threads;
DROP TABLE threads;
ALTER TABLE new_threads RENAME TO threads;
CREATE INDEX threads_latest ON threads (project_id, user_id, updated_at, key);
CREATE INDEX threads_unsealed ON threads (key) WHERE last_seq > sealed_to;
CREATE INDEX threads_of_project ON threads (project_id, updated_at, key);

CREATE TABLE new_runs (
    key             INTEGER PRIMARY KEY,
    thread_key      INTEGER NOT NULL,
    id              TEXT NOT NULL,
    project_id      TEXT NOT NULL,
    user_id         TEXT NOT NULL,
    agent           TEXT NOT NULL,
    workflow_id     TEXT NOT NULL,
    status          TEXT NOT NULL,
    output_summary  TEXT,
    error           TEXT,
    usage           TEXT,
    generation      INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,
    spans           INTEGER NOT NULL DEFAULT 0,
    span_name       TEXT NOT NULL DEFAULT '',
    turn            INTEGER NOT NULL DEFAULT 0,
    answered        INTEGER NOT NULL,
    owner_instance  TEXT NOT NULL,
    replaces        TEXT,
    roll_back       INTEGER NOT NULL DEFAULT 0,
    closed_event_id INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    queued_at       INTEGER NOT NULL,
    started_at      INTEGER,
    finished_at     INTEGER
) STRICT;
INSERT INTO new_runs (key, thread_key, id, project_id, user_id, agent, workflow_id, status, output_summary, error, usage, generation, attempt, spans, span_name, turn, answered, owner_instance, replaces, roll_back, closed_event_id, created_at, queued_at, started_at, finished_at)
SELECT key, thread_key, id, project_id, user_id, agent, workflow_id, status, output_summary, error, usage, generation, attempt, spans, span_name, turn, answered, owner_instance, replaces, roll_back, closed_event_id, created_at, queued_at, started_at, finished_at FROM runs;
DROP TABLE runs;
ALTER TABLE new_runs RENAME TO runs;
CREATE INDEX runs_user ON runs (project_id, user_id, created_at);
CREATE INDEX runs_status ON runs (project_id, status, created_at);
CREATE INDEX runs_workflow ON runs (project_id, workflow_id, created_at);
CREATE INDEX runs_created ON runs (project_id, created_at);
-- Of two indexes that seem equally good SQLite takes the younger one.
CREATE INDEX runs_thread ON runs (thread_key, key);
CREATE UNIQUE INDEX runs_open ON runs (thread_key, CASE status WHEN 'QUEUED' THEN key ELSE 0 END)
WHERE status IN ('QUEUED', 'RUNNING', 'WAITING');

CREATE TABLE new_messages (
    key              INTEGER PRIMARY KEY,
    thread_key       INTEGER NOT NULL,
    run_key          INTEGER,
    seq              INTEGER NOT NULL,
    event_id         INTEGER NOT NULL,
    state            TEXT NOT NULL,
    message_id       TEXT NOT NULL,
    tool_call_id     TEXT NOT NULL,
    context_item_ids TEXT,
    message          TEXT NOT NULL,
    day              INTEGER,
    created_at       INTEGER NOT NULL,
    UNIQUE (thread_key, message_id)
) STRICT;
INSERT INTO new_messages (key, thread_key, run_key, seq, event_id, state, message_id, tool_call_id, context_item_ids, message, day, created_at)
SELECT key, thread_key, run_key, seq, event_id, state, message_id, tool_call_id, context_item_ids, message, day, created_at FROM messages;
DROP TABLE messages;
ALTER TABLE new_messages RENAME TO messages;
CREATE INDEX messages_seq ON messages (thread_key, seq);
CREATE INDEX messages_run ON messages (run_key, key);
CREATE INDEX messages_tool_call ON messages (thread_key, tool_call_id) WHERE tool_call_id <> '';
CREATE INDEX messages_day ON messages (thread_key, day, seq) WHERE state = 'consumed' AND day IS NOT NULL;
CREATE INDEX messages_queued ON messages (run_key, key) WHERE state = 'queued';
