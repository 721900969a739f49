-- +goose Up
DROP INDEX interrupts_expiring;
CREATE INDEX interrupts_expiring ON interrupts (expires_at) WHERE status = 'open' AND expires_at IS NOT NULL;
