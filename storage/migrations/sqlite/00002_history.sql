-- +goose Up
-- The UTC day of created_at, counted from 1970; NULL for what no history shows.
ALTER TABLE messages ADD COLUMN day INTEGER;
UPDATE messages SET day = created_at / 86400000
WHERE json_extract(message, '$.role') NOT IN ('reasoning', 'activity');
CREATE INDEX messages_day ON messages (thread_key, day, seq) WHERE state = 'consumed' AND day IS NOT NULL;

CREATE INDEX idempotency_keys_run ON idempotency_keys (run_key);
