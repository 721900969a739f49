-- +goose Up
-- A statement is planned once, for what its tables hold then. Of a table that is known to be small each index seems as good as
-- another, and none at all as well; of one that nobody has looked at the best is taken. So nobody looks at these before they
-- are large enough to tell.
ALTER TABLE threads SET (autovacuum_analyze_threshold = 2000, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = 2000);
ALTER TABLE runs SET (autovacuum_analyze_threshold = 2000, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = 2000);
ALTER TABLE run_inputs SET (autovacuum_analyze_threshold = 2000, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = 2000);
ALTER TABLE run_names SET (autovacuum_analyze_threshold = 2000, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = 2000);
ALTER TABLE run_spans SET (autovacuum_analyze_threshold = 2000, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = 2000);
ALTER TABLE thread_states SET (autovacuum_analyze_threshold = 2000, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = 2000);
ALTER TABLE steps SET (autovacuum_analyze_threshold = 2000, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = 2000);
ALTER TABLE node_states SET (autovacuum_analyze_threshold = 2000, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = 2000);
ALTER TABLE messages SET (autovacuum_analyze_threshold = 2000, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = 2000);
ALTER TABLE memos SET (autovacuum_analyze_threshold = 2000, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = 2000);
ALTER TABLE interrupts SET (autovacuum_analyze_threshold = 2000, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = 2000);
ALTER TABLE idempotency_keys SET (autovacuum_analyze_threshold = 2000, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = 2000);
ALTER TABLE event_segments SET (autovacuum_analyze_threshold = 2000, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = 2000);

-- A step and a span are changed when they end, in no column that an index has. With room on its page such a change writes to no
-- index.
ALTER TABLE run_spans SET (fillfactor = 80);
ALTER TABLE steps SET (fillfactor = 70);
