-- +goose Up
-- The threads of all users of a project, by their latest activity.
CREATE INDEX threads_of_project ON threads (project_id, updated_at, key);

-- The audit is read by time, of a project or of one thing in it.
DROP INDEX audit_project;
DROP INDEX audit_actor;
DROP INDEX audit_action;
DROP INDEX audit_at;
CREATE INDEX audit_time ON audit (project_id, at, key);
CREATE INDEX audit_actor ON audit (project_id, actor, at, key);
CREATE INDEX audit_action ON audit (project_id, action, at, key);
CREATE INDEX audit_user ON audit (project_id, user_id, at, key);
CREATE INDEX audit_run ON audit (project_id, run_id, at, key);
