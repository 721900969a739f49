-- +goose Up
-- Who may write: one instance at a time, until it leaves, its lease runs out or its process is known to be gone.
ALTER TABLE instances ADD COLUMN leased_until timestamptz NOT NULL DEFAULT '-infinity';
ALTER TABLE instances ADD COLUMN process text NOT NULL DEFAULT '';
ALTER TABLE instances ADD COLUMN ended text NOT NULL DEFAULT '';
UPDATE instances SET ended = 'crashed' WHERE fenced;
CREATE INDEX instances_open ON instances (id) WHERE NOT fenced;
