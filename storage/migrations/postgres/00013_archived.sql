-- +goose Up
-- A thread that somebody has put away.
ALTER TABLE threads ADD COLUMN archived boolean NOT NULL DEFAULT FALSE;
