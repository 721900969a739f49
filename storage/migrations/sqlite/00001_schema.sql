-- +goose Up
CREATE TABLE threads (
    key             INTEGER PRIMARY KEY AUTOINCREMENT,
    project_id      TEXT NOT NULL,
    user_id         TEXT NOT NULL,
    thread_id       TEXT NOT NULL,
    conversation_id TEXT NOT NULL UNIQUE,
    last_seq        INTEGER NOT NULL,
    sealed_to       INTEGER NOT NULL DEFAULT 0,
    state           TEXT,
    title           TEXT NOT NULL,
    metadata        TEXT,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    UNIQUE (project_id, user_id, thread_id)
) STRICT;
CREATE INDEX threads_latest ON threads (project_id, user_id, updated_at, key);
CREATE INDEX threads_unsealed ON threads (key) WHERE last_seq > sealed_to;

CREATE TABLE runs (
    key              INTEGER PRIMARY KEY AUTOINCREMENT,
    thread_key       INTEGER NOT NULL REFERENCES threads (key) ON DELETE CASCADE,
    id               TEXT NOT NULL,
    project_id       TEXT NOT NULL,
    user_id          TEXT NOT NULL,
    agent            TEXT NOT NULL,
    workflow_id      TEXT NOT NULL,
    status           TEXT NOT NULL,
    input            TEXT,
    definition       TEXT,
    input_query      TEXT NOT NULL,
    output_summary   TEXT,
    error            TEXT,
    usage            TEXT,
    context_item_ids TEXT,
    metadata         TEXT,
    parent_run       TEXT NOT NULL,
    background       INTEGER NOT NULL,
    generation       INTEGER NOT NULL,
    attempt          INTEGER NOT NULL,
    answered         INTEGER NOT NULL,
    owner_instance   TEXT NOT NULL,
    closed_event_id  INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    queued_at        INTEGER NOT NULL,
    started_at       INTEGER,
    finished_at      INTEGER
) STRICT;
CREATE UNIQUE INDEX runs_active ON runs (thread_key) WHERE status IN ('RUNNING', 'WAITING');
CREATE INDEX runs_open ON runs (thread_key) WHERE status IN ('QUEUED', 'RUNNING', 'WAITING');
CREATE INDEX runs_unfinished ON runs (status, queued_at, key) WHERE status IN ('QUEUED', 'RUNNING', 'WAITING');
CREATE INDEX runs_project ON runs (project_id);
CREATE INDEX runs_user ON runs (project_id, user_id);
CREATE INDEX runs_status ON runs (project_id, status);
CREATE INDEX runs_agent ON runs (project_id, agent);
CREATE INDEX runs_workflow ON runs (project_id, workflow_id);
CREATE INDEX runs_created ON runs (project_id, created_at);
-- Of two indexes that seem equally good SQLite takes the younger one.
CREATE INDEX runs_thread ON runs (thread_key, key);

CREATE TABLE run_names (
    project_id TEXT NOT NULL,
    name       TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    run_key    INTEGER NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
    PRIMARY KEY (project_id, name, user_id)
) STRICT;
CREATE INDEX run_names_run ON run_names (run_key);

CREATE TABLE run_spans (
    run_key        INTEGER NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
    n              INTEGER NOT NULL,
    thread_key     INTEGER NOT NULL,
    run_id         TEXT NOT NULL,
    generation     INTEGER NOT NULL,
    first_event_id INTEGER NOT NULL,
    last_event_id  INTEGER NOT NULL,
    state          TEXT,
    PRIMARY KEY (run_key, n)
) STRICT;
CREATE UNIQUE INDEX run_spans_thread ON run_spans (thread_key, first_event_id);

-- One row holds what one commit appended to one run, a line per event: see storage/pack.go.
CREATE TABLE events (
    thread_key     INTEGER NOT NULL,
    last_event_id  INTEGER NOT NULL,
    first_event_id INTEGER NOT NULL,
    run_key        INTEGER NOT NULL,
    committed_at   INTEGER NOT NULL,
    payload        TEXT NOT NULL,
    PRIMARY KEY (thread_key, last_event_id)
) STRICT;

CREATE TABLE event_segments (
    thread_key     INTEGER NOT NULL,
    last_event_id  INTEGER NOT NULL,
    first_event_id INTEGER NOT NULL,
    events         INTEGER NOT NULL,
    data           BLOB NOT NULL,
    PRIMARY KEY (thread_key, last_event_id)
) STRICT;

CREATE TABLE steps (
    run_key      INTEGER NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
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
    PRIMARY KEY (run_key, number)
) STRICT;

CREATE TABLE node_states (
    run_key      INTEGER NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
    node_id      TEXT NOT NULL,
    status       TEXT NOT NULL,
    progress     REAL NOT NULL,
    messages     TEXT,
    output       TEXT,
    error        TEXT,
    started_at   INTEGER,
    completed_at INTEGER,
    PRIMARY KEY (run_key, node_id)
) STRICT;

CREATE TABLE messages (
    key              INTEGER PRIMARY KEY AUTOINCREMENT,
    thread_key       INTEGER NOT NULL REFERENCES threads (key) ON DELETE CASCADE,
    run_key          INTEGER REFERENCES runs (key) ON DELETE CASCADE,
    seq              INTEGER NOT NULL,
    event_id         INTEGER NOT NULL,
    state            TEXT NOT NULL,
    message_id       TEXT NOT NULL,
    tool_call_id     TEXT NOT NULL,
    context_item_ids TEXT,
    message          TEXT NOT NULL,
    created_at       INTEGER NOT NULL,
    UNIQUE (thread_key, message_id)
) STRICT;
CREATE INDEX messages_seq ON messages (thread_key, seq);
CREATE INDEX messages_run ON messages (run_key, key);
CREATE INDEX messages_tool_call ON messages (thread_key, tool_call_id) WHERE tool_call_id <> '';

CREATE TABLE memos (
    run_key    INTEGER NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
    generation INTEGER NOT NULL,
    step       INTEGER NOT NULL,
    name       TEXT NOT NULL,
    n          INTEGER NOT NULL,
    call_id    TEXT NOT NULL,
    done       INTEGER NOT NULL,
    output     TEXT,
    PRIMARY KEY (run_key, generation, step, name, n)
) STRICT;

CREATE TABLE interrupts (
    key          INTEGER PRIMARY KEY AUTOINCREMENT,
    run_key      INTEGER NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
    interrupt_id TEXT NOT NULL,
    step         INTEGER NOT NULL,
    name         TEXT NOT NULL,
    n            INTEGER NOT NULL,
    frontend     INTEGER NOT NULL,
    body         TEXT,
    status       TEXT NOT NULL,
    payload      TEXT,
    expires_at   INTEGER,
    created_at   INTEGER NOT NULL,
    UNIQUE (run_key, interrupt_id)
) STRICT;
CREATE INDEX interrupts_expiring ON interrupts (expires_at) WHERE status = 'open';

CREATE TABLE instances (
    id         TEXT PRIMARY KEY,
    fenced     INTEGER NOT NULL,
    addr       TEXT NOT NULL,
    commit_no  INTEGER NOT NULL,
    started_at INTEGER NOT NULL
) STRICT;

CREATE TABLE idempotency_keys (
    scope      TEXT PRIMARY KEY,
    body_hash  TEXT NOT NULL,
    run_key    INTEGER NOT NULL,
    status     INTEGER NOT NULL,
    answer     TEXT,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);
