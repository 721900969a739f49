-- +goose Up
-- What only the detail of a run shows, once the run has ended a day ago: its input, steps, nodes and answer, compressed.
CREATE TABLE sealed_runs (
    run_key INTEGER PRIMARY KEY REFERENCES runs (key) ON DELETE CASCADE,
    data    BLOB NOT NULL
) STRICT;
