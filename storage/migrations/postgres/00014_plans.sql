-- +goose Up
-- Until a table is analyzed all its indexes seem equally good, and of two PostgreSQL takes the younger one. A thread is
-- to be found by its name then, too, and not among all of its user's.
ALTER TABLE threads DROP CONSTRAINT threads_project_id_user_id_thread_id_key;
ALTER TABLE threads ADD CONSTRAINT threads_project_id_user_id_thread_id_key UNIQUE (project_id, user_id, thread_id);

-- Nor are a run's open questions to be found among those of all runs.
DROP INDEX interrupts_expiring;
CREATE INDEX interrupts_expiring ON interrupts (expires_at) WHERE status = 'open' AND expires_at IS NOT NULL;
