-- +goose Up
-- Who has asked for what that changed something.
CREATE TABLE audit (
    key        INTEGER PRIMARY KEY AUTOINCREMENT,
    project_id TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    actor      TEXT NOT NULL,
    action     TEXT NOT NULL,
    thread_id  TEXT NOT NULL,
    run_id     TEXT NOT NULL,
    credential TEXT NOT NULL,
    address    TEXT NOT NULL,
    request    TEXT NOT NULL,
    at         INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_project ON audit (project_id, key);
CREATE INDEX audit_actor ON audit (project_id, actor, key);
CREATE INDEX audit_action ON audit (project_id, action, key);
CREATE INDEX audit_at ON audit (at);
