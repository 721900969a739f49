-- +goose Up
-- The UTC day in whose history a message stands, counted from 1970; NULL for none. Days rise with seq.
ALTER TABLE messages ADD COLUMN day bigint;
-- A message may hold \u0000, of which PostgreSQL's own JSON functions die.
UPDATE messages SET day = days.day FROM (
    SELECT key, max(floor(extract(epoch FROM created_at) / 86400)) OVER (PARTITION BY thread_key ORDER BY seq) AS day
    FROM messages WHERE seq > 0) AS days
WHERE messages.key = days.key
    AND substring(message FROM '^[{]"id":"(?:[^"\\]|\\.)*","role":"([a-z]+)"') NOT IN ('reasoning', 'activity');
CREATE INDEX messages_day ON messages (thread_key, day, seq) WHERE state = 'consumed' AND day IS NOT NULL;

CREATE INDEX idempotency_keys_run ON idempotency_keys (run_key);
