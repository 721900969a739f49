-- +goose Up
-- The UTC day of created_at, counted from 1970; NULL for what no history shows.
ALTER TABLE messages ADD COLUMN day bigint;
-- A message may hold \u0000, of which PostgreSQL's own JSON functions die.
UPDATE messages SET day = floor(extract(epoch FROM created_at) / 86400)
WHERE substring(message FROM '^[{]"id":"(?:[^"\\]|\\.)*","role":"([a-z]+)"') NOT IN ('reasoning', 'activity');
CREATE INDEX messages_day ON messages (thread_key, day, seq) WHERE state = 'consumed' AND day IS NOT NULL;

CREATE INDEX idempotency_keys_run ON idempotency_keys (run_key);
