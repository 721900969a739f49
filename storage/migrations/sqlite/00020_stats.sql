-- +goose Up
-- What waits for somebody is found by whose it is. An interrupt that is not open any more needs neither.
ALTER TABLE interrupts ADD COLUMN project_id TEXT NOT NULL DEFAULT '';
ALTER TABLE interrupts ADD COLUMN user_id TEXT NOT NULL DEFAULT '';
UPDATE interrupts SET project_id = runs.project_id, user_id = runs.user_id FROM runs
WHERE runs.key = interrupts.run_key AND interrupts.status = 'open';
CREATE INDEX interrupts_waiting ON interrupts (project_id, key) WHERE status = 'open';
CREATE INDEX interrupts_of_user ON interrupts (project_id, user_id, key) WHERE status = 'open';

-- What the runs of a project came to, by the minute and by the hour: see storage/stats.go. Runs up to the mark are counted, but
-- for those in stats_open.
CREATE TABLE stats_buckets (
    project_id TEXT NOT NULL,
    step       INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    data       TEXT NOT NULL,
    PRIMARY KEY (project_id, step, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX stats_buckets_at ON stats_buckets (step, at);

CREATE TABLE stats_open (
    run_key    INTEGER PRIMARY KEY,
    project_id TEXT NOT NULL,
    usage      TEXT
) STRICT;
CREATE INDEX stats_open_project ON stats_open (project_id, run_key);

CREATE TABLE stats_mark (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    run_key INTEGER NOT NULL
) STRICT;
INSERT INTO stats_mark (id, run_key) VALUES (1, 0);
