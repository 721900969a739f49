-- +goose Up
-- What users attach to messages. The bytes lie elsewhere, under a name that follows from project, user and path. A row is
-- reserved while its bytes arrive, kept when they are there, used once a run's message refers to it, and gone when nobody
-- may have it any more and its bytes are still to be removed.
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
CREATE INDEX attachments_created ON attachments (project_id, created_at);
CREATE INDEX attachments_loose ON attachments (state, used_at, key) WHERE state <> 'used';

CREATE TABLE attachment_uses (
    run_key        INTEGER NOT NULL,
    attachment_key INTEGER NOT NULL,
    PRIMARY KEY (run_key, attachment_key)
) STRICT;
CREATE INDEX attachment_uses_key ON attachment_uses (attachment_key);
