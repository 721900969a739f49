-- +goose Up
-- A thread that somebody has put away.
ALTER TABLE threads ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
