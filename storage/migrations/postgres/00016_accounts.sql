-- +goose Up
-- Static API keys. Of a key's secret only the hash is kept.
CREATE TABLE api_keys (
    id         text COLLATE "C" PRIMARY KEY,
    hash       text COLLATE "C" NOT NULL,
    user_id    text COLLATE "C" NOT NULL,
    projects   text NOT NULL,
    role       text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz
);

-- What servers on this database sign with, by what they sign.
CREATE TABLE secrets (
    purpose    text COLLATE "C" PRIMARY KEY,
    value      text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL
);
