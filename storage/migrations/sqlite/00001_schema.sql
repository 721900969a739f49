-- +goose Up
-- The whole schema, by subject. Times are milliseconds since 1970.
-- No foreign keys: the program deletes the rows of a run or a thread before the run or the thread itself (see storage/delete.go).

-- Threads -----------------------------------------------------------------------------------------------------------------

CREATE TABLE threads (
    key              INTEGER PRIMARY KEY,
    project_id       TEXT NOT NULL,
    user_id          TEXT NOT NULL,
    thread_id        TEXT NOT NULL,
    conversation_id  TEXT NOT NULL,
    last_seq         INTEGER NOT NULL, -- no new event gets this id or a lower one; the log may be ahead of it
    last_message_seq INTEGER NOT NULL DEFAULT 0,
    sealed_to        INTEGER NOT NULL DEFAULT 0, -- the last event that is in event_segments
    removals         INTEGER NOT NULL DEFAULT 0, -- transactions that have deleted rows
    title            TEXT NOT NULL,
    metadata         TEXT,
    archived         INTEGER NOT NULL DEFAULT 0,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    UNIQUE (project_id, conversation_id),
    UNIQUE (project_id, user_id, thread_id)
) STRICT;
CREATE INDEX threads_latest ON threads (project_id, user_id, updated_at, key);
CREATE INDEX threads_of_project ON threads (project_id, updated_at, key);
CREATE INDEX threads_unsealed ON threads (key) WHERE last_seq > sealed_to;

-- A thread without a row has the state {}.
CREATE TABLE thread_states (
    thread_key INTEGER PRIMARY KEY,
    state      TEXT
) STRICT;

-- The messages of a thread. day is the UTC day, counted from 1970, in whose history a message is listed; NULL for none.
-- Days rise with seq.
CREATE TABLE messages (
    key              INTEGER PRIMARY KEY,
    thread_key       INTEGER NOT NULL,
    run_key          INTEGER,
    seq              INTEGER NOT NULL,
    event_id         INTEGER NOT NULL,
    state            TEXT NOT NULL,
    message_id       TEXT NOT NULL,
    tool_call_id     TEXT NOT NULL,
    content_hash     INTEGER NOT NULL,    -- of a user's message, 0 for others
    instructs        INTEGER NOT NULL, -- whether the client tells models what to do: see model.Instructs
    context_item_ids TEXT,
    message          TEXT NOT NULL,
    day              INTEGER,
    created_at       INTEGER NOT NULL,
    UNIQUE (thread_key, message_id)
) STRICT;
CREATE INDEX messages_seq ON messages (thread_key, seq, state, octet_length(message)); -- the weight of a run reads no rows
CREATE INDEX messages_run ON messages (run_key, key);
CREATE INDEX messages_queued ON messages (run_key, key) WHERE state = 'queued';
CREATE INDEX messages_tool_call ON messages (thread_key, tool_call_id) WHERE tool_call_id <> '';
CREATE INDEX messages_day ON messages (thread_key, day, seq) WHERE state = 'consumed' AND day IS NOT NULL;
CREATE INDEX messages_instructions ON messages (thread_key, seq) WHERE instructs;

-- Runs --------------------------------------------------------------------------------------------------------------------

-- Each decision reads rows of runs and threads, so these rows are small: large columns are in tables of their own.
CREATE TABLE runs (
    key               INTEGER PRIMARY KEY,
    thread_key        INTEGER NOT NULL,
    id                TEXT NOT NULL,
    project_id        TEXT NOT NULL,
    user_id           TEXT NOT NULL,
    agent             TEXT NOT NULL,
    workflow_id       TEXT NOT NULL, -- the agent's name where no workflow was asked for
    -- A new status needs a migration, which says that programs that do not know it cannot go on.
    status            TEXT NOT NULL CHECK (status IN ('QUEUED', 'RUNNING', 'WAITING', 'COMPLETED', 'FAILED', 'CANCELLED')),
    output_summary    TEXT,
    error             TEXT,
    usage             TEXT,
    generation        INTEGER NOT NULL,
    attempt           INTEGER NOT NULL,
    spans             INTEGER NOT NULL DEFAULT 0,
    span_name         TEXT NOT NULL DEFAULT '',
    turn              INTEGER NOT NULL DEFAULT 0,
    answered          INTEGER NOT NULL,
    owner_instance    TEXT NOT NULL,
    tied_to           TEXT NOT NULL DEFAULT '', -- the connection that the run belongs to: see data.RunTie
    cancel_asked      TEXT, -- by another instance than the one that executes the run: who asks
    replaces          TEXT,
    roll_back         INTEGER NOT NULL DEFAULT 0,
    closed_event_id   INTEGER NOT NULL,
    created_at        INTEGER NOT NULL,
    queued_at         INTEGER NOT NULL,
    started_at        INTEGER,
    finished_at       INTEGER,
    claimed_at        INTEGER, -- last, or taken over
    waits             TEXT, -- of a WAITING run, beside its questions, and when they are due
    parked_event      INTEGER NOT NULL DEFAULT 0,
    active_ms         INTEGER NOT NULL DEFAULT 0,
    signals           INTEGER NOT NULL DEFAULT 0 -- the highest n of its signals
) STRICT;
CREATE INDEX runs_user ON runs (project_id, user_id, status, created_at);
CREATE INDEX runs_status ON runs (project_id, status, created_at);
CREATE INDEX runs_workflow ON runs (project_id, workflow_id, created_at);
CREATE INDEX runs_created ON runs (project_id, created_at);
-- Of two indexes that seem equally good SQLite chooses the younger one.
CREATE INDEX runs_thread ON runs (thread_key, key);
-- This index finds a thread's open runs, and allows one that is not queued.
CREATE UNIQUE INDEX runs_open ON runs (thread_key, CASE status WHEN 'QUEUED' THEN key ELSE 0 END)
WHERE status IN ('QUEUED', 'RUNNING', 'WAITING');

CREATE INDEX runs_asked ON runs (owner_instance) WHERE cancel_asked IS NOT NULL;

-- What each thread needs so that its runs go on, written by the decisions about the thread.
CREATE TABLE queue (
    thread_key INTEGER PRIMARY KEY,
    todo       INTEGER NOT NULL, -- 1 cancel, 2 claim, 3 wake
    run_key    INTEGER NOT NULL,
    project_id TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    workflow   TEXT NOT NULL, -- the run's workflow_id
    agent      TEXT NOT NULL,
    rank       INTEGER NOT NULL, -- 1 for an answered run, otherwise 2
    since      INTEGER NOT NULL -- when the run was queued, or its wait is due
) STRICT;
-- A lane is what has the first four columns in common.
CREATE INDEX queue_lanes ON queue (project_id, user_id, workflow, agent, rank, since, thread_key) WHERE todo = 2;
CREATE INDEX queue_user ON queue (project_id, user_id, rank, since, thread_key) WHERE todo = 2; -- positions
CREATE INDEX queue_cancel ON queue (thread_key) WHERE todo = 1;
CREATE INDEX queue_wake ON queue (since, thread_key) WHERE todo = 3;

CREATE TABLE run_inputs (
    run_key          INTEGER PRIMARY KEY,
    input            TEXT,
    definition       TEXT,
    input_query      TEXT NOT NULL,
    context_item_ids TEXT,
    metadata         TEXT,
    parent_run       TEXT NOT NULL
) STRICT;

CREATE TABLE run_names (
    project_id TEXT NOT NULL,
    name       TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    run_key    INTEGER NOT NULL,
    body_hash  TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (project_id, name, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_names_run ON run_names (run_key);

-- The terms by which runs are found (see storage/terms.go): the rowid is the run's key. It stores no text, and no places in it.
CREATE VIRTUAL TABLE run_terms USING fts5 (
    terms, content='', contentless_delete=1, detail=none, tokenize="ascii tokenchars '#'"
);
-- The terms themselves. It stores nothing.
CREATE VIRTUAL TABLE run_words USING fts5vocab (run_terms, instance);

-- The range of a thread's events that a run has written under one name. An open span has last_event_id 0, and is its
-- thread's last.
CREATE TABLE run_spans (
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
CREATE UNIQUE INDEX run_spans_thread ON run_spans (thread_key, first_event_id);

-- tells_node is set where the step implies the state of its node: then the node has no row, or an outdated one.
CREATE TABLE steps (
    run_key      INTEGER NOT NULL,
    number       INTEGER NOT NULL,
    id           TEXT NOT NULL,
    generation   INTEGER NOT NULL,
    node_id      TEXT NOT NULL,
    name         TEXT NOT NULL,
    item         TEXT,
    execution    INTEGER NOT NULL,
    round        INTEGER NOT NULL,
    status       TEXT NOT NULL,
    input        TEXT NOT NULL,
    output       TEXT,
    error        TEXT,
    started_at   INTEGER NOT NULL,
    completed_at INTEGER,
    tells_node   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run_key, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE node_states (
    run_key      INTEGER NOT NULL,
    node_id      TEXT NOT NULL,
    status       TEXT NOT NULL,
    round        INTEGER NOT NULL,
    progress     REAL NOT NULL,
    messages     TEXT,
    output       TEXT,
    map          TEXT,
    error        TEXT,
    started_at   INTEGER,
    completed_at INTEGER,
    PRIMARY KEY (run_key, node_id)
) STRICT;

-- What a worker's Do, CallTool, Ask and Next have recorded. A record is found by its place in the worker's code: the calls
-- that enclose it, its name, and its ordinal among those of that name.
CREATE TABLE memos (
    run_key    INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    step       INTEGER NOT NULL,
    place      TEXT NOT NULL,
    tool       TEXT NOT NULL,
    agent      TEXT NOT NULL,
    hash       TEXT NOT NULL,
    call_id    TEXT NOT NULL,
    begun      INTEGER NOT NULL,
    done       INTEGER NOT NULL,
    output     TEXT,
    event      INTEGER NOT NULL,
    PRIMARY KEY (run_key, generation, step, place)
) STRICT, WITHOUT ROWID;

-- Events from outside that a run has not received yet.
CREATE TABLE signals (
    run_key    INTEGER NOT NULL,
    n          INTEGER NOT NULL, -- among the run's, from 1
    name       TEXT NOT NULL,
    payload    TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (run_key, n)
) STRICT;

-- Questions and approvals.
CREATE TABLE interrupts (
    key          INTEGER PRIMARY KEY AUTOINCREMENT,
    project_id   TEXT NOT NULL,
    user_id      TEXT NOT NULL,
    run_key      INTEGER NOT NULL,
    interrupt_id TEXT NOT NULL,
    step         INTEGER NOT NULL,
    place        TEXT NOT NULL,
    frontend     INTEGER NOT NULL,
    tool         TEXT NOT NULL,
    body         TEXT,
    status       TEXT NOT NULL,
    payload      TEXT,
    expires_at   INTEGER,
    created_at   INTEGER NOT NULL,
    UNIQUE (run_key, interrupt_id)
) STRICT;
CREATE INDEX interrupts_id ON interrupts (project_id, interrupt_id);
CREATE INDEX interrupts_expiring ON interrupts (expires_at) WHERE status = 'open' AND expires_at IS NOT NULL;
CREATE INDEX interrupts_waiting ON interrupts (project_id, key) WHERE status = 'open';
CREATE INDEX interrupts_of_user ON interrupts (project_id, user_id, key) WHERE status = 'open';

CREATE TABLE idempotency_keys (
    scope      TEXT PRIMARY KEY,
    body_hash  TEXT NOT NULL,
    run_key    INTEGER NOT NULL,
    answer     TEXT,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);
CREATE INDEX idempotency_keys_run ON idempotency_keys (run_key);

-- Deletions of which parts are left: of a run, or with run_key 0 of a thread. Another server resumes those of one that has ended.
CREATE TABLE deletions (
    thread_key    INTEGER NOT NULL,
    run_key       INTEGER NOT NULL,
    events        INTEGER NOT NULL, -- 1 for the run's events alone
    last_event_id INTEGER NOT NULL, -- the thread's last event, or the one that closed the run
    instance      TEXT NOT NULL, -- which has removed the last part
    PRIMARY KEY (thread_key, run_key)
) STRICT, WITHOUT ROWID;

-- Events ------------------------------------------------------------------------------------------------------------------

-- One row holds what one commit appended to one run, a line per event: see storage/eventlog.
CREATE TABLE events (
    thread_key     INTEGER NOT NULL,
    last_event_id  INTEGER NOT NULL,
    first_event_id INTEGER NOT NULL,
    run_key        INTEGER NOT NULL,
    committed_at   INTEGER NOT NULL,
    payload        TEXT NOT NULL,
    PRIMARY KEY (thread_key, last_event_id)
) STRICT;

-- Old events, compressed: see storage/eventlog.
CREATE TABLE event_segments (
    thread_key     INTEGER NOT NULL,
    last_event_id  INTEGER NOT NULL,
    first_event_id INTEGER NOT NULL,
    events         INTEGER NOT NULL,
    data           BLOB NOT NULL,
    PRIMARY KEY (thread_key, last_event_id)
) STRICT;

-- Attachments -------------------------------------------------------------------------------------------------------------

-- Files that users attach to messages. Their bytes are stored elsewhere, under a name made of project, user and path. A row
-- is reserved while the bytes arrive, kept when they are complete, used once a message of a run refers to the file, and gone
-- when nobody may read the file any more but its bytes are still to be removed.
CREATE TABLE attachments (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    project_id TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    path       TEXT NOT NULL,
    filename   TEXT NOT NULL,
    type       TEXT NOT NULL,
    size       INTEGER NOT NULL,
    state      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL,
    UNIQUE (project_id, path)
) STRICT;
CREATE INDEX attachments_user ON attachments (project_id, user_id, created_at);
CREATE INDEX attachments_paths ON attachments (project_id, user_id, path);
CREATE INDEX attachments_created ON attachments (project_id, created_at);
CREATE INDEX attachments_loose ON attachments (state, used_at, key) WHERE state <> 'used';

CREATE TABLE attachment_uses (
    run_key        INTEGER NOT NULL,
    attachment_key INTEGER NOT NULL,
    PRIMARY KEY (run_key, attachment_key)
) STRICT;
CREATE INDEX attachment_uses_key ON attachment_uses (attachment_key);

-- Prompts -----------------------------------------------------------------------------------------------------------------

-- Calls of models. sent and answer refer to messages of the thread and to prompt_pieces: see package runtime/prompts.
CREATE TABLE prompts (
    run_key        INTEGER NOT NULL,
    id             TEXT NOT NULL,
    step           INTEGER NOT NULL,
    status         TEXT NOT NULL,
    provider       TEXT,
    model          TEXT,
    finish_reason  TEXT,
    usage          TEXT,
    error          TEXT,
    sent           TEXT NOT NULL,
    changes        TEXT,
    answer         TEXT,
    first_token_ms INTEGER,
    duration_ms    INTEGER,
    started_at     INTEGER NOT NULL,
    PRIMARY KEY (run_key, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE prompt_pieces (
    id   TEXT PRIMARY KEY,
    body TEXT NOT NULL
) STRICT;

-- A piece goes with the last run that uses it.
CREATE TABLE prompt_uses (
    run_key INTEGER NOT NULL,
    piece   TEXT NOT NULL,
    PRIMARY KEY (run_key, piece)
) STRICT, WITHOUT ROWID;
CREATE INDEX prompt_uses_piece ON prompt_uses (piece);

-- Servers -----------------------------------------------------------------------------------------------------------------

-- One instance may write at a time: until it leaves, its lease ends or its process is known to be gone.
CREATE TABLE instances (
    id           TEXT PRIMARY KEY,
    fenced       INTEGER NOT NULL,
    ended        TEXT NOT NULL,
    addr         TEXT NOT NULL,
    process      TEXT NOT NULL,
    commit_no    INTEGER NOT NULL,
    leased_until INTEGER NOT NULL,
    started_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX instances_open ON instances (id) WHERE NOT fenced;

-- The oldest program that may serve the database: see the schema for PostgreSQL.
CREATE TABLE schema_oldest (oldest INTEGER NOT NULL) STRICT;
INSERT INTO schema_oldest VALUES (1);

-- The highest key that was reserved for a table. The program numbers threads and runs, and reserves a thousand keys at a
-- time, so that no key is given twice: AUTOINCREMENT would cost as much as another index.
CREATE TABLE given_keys (
    name TEXT PRIMARY KEY,
    last INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO given_keys (name, last) VALUES ('threads', 0), ('runs', 0);

-- Access ------------------------------------------------------------------------------------------------------------------

-- Static API keys, with the hashes of their secrets.
CREATE TABLE api_keys (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    hash       TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    projects   TEXT NOT NULL,
    role       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX api_keys_revoked ON api_keys (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX api_keys_expired ON api_keys (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE api_key_projects (
    key        INTEGER PRIMARY KEY,
    project_id TEXT NOT NULL,
    id         TEXT NOT NULL
) STRICT;
CREATE INDEX api_key_projects_list ON api_key_projects (project_id, key);
CREATE INDEX api_key_projects_id ON api_key_projects (id);

-- Lists of runs that users have saved: see data.View.
CREATE TABLE saved_views (
    project_id TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    views      TEXT NOT NULL,
    PRIMARY KEY (project_id, user_id)
) STRICT, WITHOUT ROWID;

-- The secrets that the servers of this database sign with, one for each purpose.
CREATE TABLE secrets (
    purpose    TEXT PRIMARY KEY,
    value      TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row for each request that changed something. subject is neither a thread nor a run.
CREATE TABLE audit (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    project_id TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    actor      TEXT NOT NULL,
    action     TEXT NOT NULL,
    thread_id  TEXT NOT NULL,
    run_id     TEXT NOT NULL,
    subject    TEXT NOT NULL DEFAULT '',
    credential TEXT NOT NULL,
    address    TEXT NOT NULL,
    request    TEXT NOT NULL,
    at         INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_time ON audit (project_id, at);
CREATE INDEX audit_actor ON audit (project_id, actor, at);
CREATE INDEX audit_action ON audit (project_id, action, at);
CREATE INDEX audit_user ON audit (project_id, user_id, at);
CREATE INDEX audit_run ON audit (project_id, run_id, at);

-- Statistics --------------------------------------------------------------------------------------------------------------

-- Each run that ends inserts a row, with each of its generations, and so does each call of a model. Every few seconds the rows
-- are added to stats_buckets and usage_days, the terms of these runs are written, and the rows are deleted: see storage/stats.go.
-- So these tables are short, and need no other index.
CREATE TABLE ended_runs (
    key              INTEGER PRIMARY KEY,
    run_key          INTEGER NOT NULL,
    project_id       TEXT NOT NULL,
    agent            TEXT NOT NULL,
    status           TEXT NOT NULL,
    code             TEXT NOT NULL,
    first_generation INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    begun_at         INTEGER,
    finished_at      INTEGER NOT NULL
) STRICT;

CREATE TABLE model_calls (
    key        INTEGER PRIMARY KEY,
    project_id TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    agent      TEXT NOT NULL,
    at         INTEGER NOT NULL,
    calls      INTEGER NOT NULL, -- 0 for a further part of a call
    cost       INTEGER NOT NULL, -- in billionths of the currency
    usage      TEXT NOT NULL
) STRICT;

-- What the runs of a project came to, by the minute and by the hour.
CREATE TABLE stats_buckets (
    project_id TEXT NOT NULL,
    step       INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    data       TEXT NOT NULL,
    PRIMARY KEY (project_id, step, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX stats_buckets_at ON stats_buckets (step, at, project_id);

-- The usage of model calls of a day in UTC. input includes cached, and output reasoning; cost is in billionths of the currency.
CREATE TABLE usage_days (
    project_id TEXT NOT NULL,
    day        INTEGER NOT NULL,
    user_id    TEXT NOT NULL,
    agent      TEXT NOT NULL,
    provider   TEXT NOT NULL,
    model      TEXT NOT NULL,
    calls      INTEGER NOT NULL,
    input      INTEGER NOT NULL,
    cached     INTEGER NOT NULL,
    output     INTEGER NOT NULL,
    reasoning  INTEGER NOT NULL,
    cost       INTEGER NOT NULL,
    PRIMARY KEY (project_id, day, user_id, agent, provider, model)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_days_day ON usage_days (day, project_id, user_id, agent, provider, model);

-- Higher limits of budgets that operators have given in a period, which begins at since.
CREATE TABLE budget_raises (
    since      INTEGER NOT NULL,
    project_id TEXT NOT NULL,
    budget     TEXT NOT NULL,
    subject    TEXT NOT NULL,
    amount     INTEGER NOT NULL,
    PRIMARY KEY (since, project_id, budget, subject)
) STRICT, WITHOUT ROWID;
