-- +goose Up
-- What tokens calls of models took for a project, by quarters of an hour: see runtime/work/tokens.go.
CREATE TABLE tokens (
    at         timestamptz NOT NULL,
    project_id text NOT NULL,
    tokens     bigint NOT NULL,
    PRIMARY KEY (at, project_id)
);

-- A key that was revoked or has expired is found by when, to be forgotten one day, and its projects with it.
CREATE INDEX api_keys_revoked ON api_keys (revoked_at) WHERE revoked_at IS NOT NULL;
CREATE INDEX api_keys_expired ON api_keys (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX api_key_projects_id ON api_key_projects (id);
