-- +goose Up
-- Lists of a project's runs are read newest first, from any time on: each filter's index is in that order.
DROP INDEX IF EXISTS runs_project;
DROP INDEX IF EXISTS runs_user;
DROP INDEX IF EXISTS runs_status;
DROP INDEX IF EXISTS runs_agent;
DROP INDEX IF EXISTS runs_workflow;
DROP INDEX IF EXISTS runs_created;
CREATE INDEX runs_user ON runs (project_id, user_id, created_at);
CREATE INDEX runs_status ON runs (project_id, status, created_at);
CREATE INDEX runs_agent ON runs (project_id, agent, created_at);
CREATE INDEX runs_workflow ON runs (project_id, workflow_id, created_at);
CREATE INDEX runs_created ON runs (project_id, created_at);
