-- +goose Up
-- Deletions of which parts are left: of a run, or with run_key 0 of a thread. The next server goes on with what one has not finished.
CREATE TABLE deletions (
    thread_key    INTEGER NOT NULL,
    run_key       INTEGER NOT NULL,
    events        INTEGER NOT NULL, -- 1 for the run's events alone
    last_event_id INTEGER NOT NULL, -- the thread's last event, or what has closed the run
    PRIMARY KEY (thread_key, run_key)
) WITHOUT ROWID;
