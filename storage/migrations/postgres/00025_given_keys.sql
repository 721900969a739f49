-- +goose Up
-- Keys come from sequences: there is nothing to change.
SELECT 1;
