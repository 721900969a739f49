-- +goose Up
-- The UTC day in whose history a message stands, counted from 1970; NULL for none. Days rise with seq.
ALTER TABLE messages ADD COLUMN day INTEGER;
UPDATE messages SET day = days.day FROM (
    SELECT key, max(created_at / 86400000) OVER (PARTITION BY thread_key ORDER BY seq) AS day
    FROM messages WHERE seq > 0) AS days
WHERE messages.key = days.key AND json_extract(message, '$.role') NOT IN ('reasoning', 'activity');
CREATE INDEX messages_day ON messages (thread_key, day, seq) WHERE state = 'consumed' AND day IS NOT NULL;

CREATE INDEX idempotency_keys_run ON idempotency_keys (run_key);
