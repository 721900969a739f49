-- +goose Up
-- Who may write: one instance at a time, until it leaves, its lease runs out or its process is known to be gone.
ALTER TABLE instances ADD COLUMN leased_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE instances ADD COLUMN process TEXT NOT NULL DEFAULT '';
ALTER TABLE instances ADD COLUMN ended TEXT NOT NULL DEFAULT '';
UPDATE instances SET ended = 'crashed' WHERE fenced;
CREATE INDEX instances_open ON instances (id) WHERE NOT fenced;
