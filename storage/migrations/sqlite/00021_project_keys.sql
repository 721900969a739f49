-- +goose Up
-- A key has a name for people, and is found by its projects, latest first.
ALTER TABLE api_keys ADD COLUMN name TEXT NOT NULL DEFAULT '';
CREATE TABLE api_key_projects (
    key        INTEGER PRIMARY KEY,
    project_id TEXT NOT NULL,
    id         TEXT NOT NULL
) STRICT;
CREATE INDEX api_key_projects_list ON api_key_projects (project_id, key);
INSERT INTO api_key_projects (project_id, id)
SELECT project_id, id FROM (
    SELECT DISTINCT p.value AS project_id, k.id AS id, k.created_at AS created_at FROM api_keys k, json_each(k.projects) p
) ORDER BY created_at, id;

-- What else a request was about than a thread and a run.
ALTER TABLE audit ADD COLUMN subject TEXT NOT NULL DEFAULT '';
