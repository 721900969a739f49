-- +goose Up
-- What waits for somebody is found by whose it is. An interrupt that is not open any more needs neither.
ALTER TABLE interrupts ADD COLUMN project_id text NOT NULL DEFAULT '';
ALTER TABLE interrupts ADD COLUMN user_id text NOT NULL DEFAULT '';
UPDATE interrupts SET project_id = runs.project_id, user_id = runs.user_id FROM runs
WHERE runs.key = interrupts.run_key AND interrupts.status = 'open';
CREATE INDEX interrupts_waiting ON interrupts (project_id, key) WHERE status = 'open';
CREATE INDEX interrupts_of_user ON interrupts (project_id, user_id, key) WHERE status = 'open';

-- What the runs of a project came to, by the minute and by the hour: see storage/stats.go. Runs up to the mark are counted, but
-- for those in stats_open.
CREATE TABLE stats_buckets (
    project_id text NOT NULL,
    step       bigint NOT NULL,
    at         timestamptz NOT NULL,
    data       text NOT NULL,
    PRIMARY KEY (project_id, step, at)
);
CREATE INDEX stats_buckets_at ON stats_buckets (step, at);

CREATE TABLE stats_open (
    run_key    bigint PRIMARY KEY,
    project_id text NOT NULL,
    usage      text
);
CREATE INDEX stats_open_project ON stats_open (project_id, run_key);

CREATE TABLE stats_mark (
    id      bigint PRIMARY KEY CHECK (id = 1),
    run_key bigint NOT NULL
);
INSERT INTO stats_mark (id, run_key) VALUES (1, 0);
