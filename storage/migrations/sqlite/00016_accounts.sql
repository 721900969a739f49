-- +goose Up
-- Static API keys. Of a key's secret only the hash is kept.
CREATE TABLE api_keys (
    id         TEXT PRIMARY KEY,
    hash       TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    projects   TEXT NOT NULL,
    role       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;

-- What servers on this database sign with, by what they sign.
CREATE TABLE secrets (
    purpose    TEXT PRIMARY KEY,
    value      TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
