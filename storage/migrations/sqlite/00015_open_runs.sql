-- +goose Up
-- One index finds a thread's open runs, and keeps all but one of them queued.
DROP INDEX runs_active;
DROP INDEX runs_open;
CREATE UNIQUE INDEX runs_open ON runs (thread_key, CASE status WHEN 'QUEUED' THEN key ELSE 0 END)
WHERE status IN ('QUEUED', 'RUNNING', 'WAITING');

-- No statement but the one that it is for may take it, as those for some threads did: to read all open runs of a status.
DROP INDEX runs_unfinished;
CREATE INDEX runs_unfinished ON runs (queued_at, key) WHERE status IN ('QUEUED', 'RUNNING', 'WAITING');
