-- +goose Up
-- A record is found by its place in the code of its worker: what it stands in, what it is of, and the how-manieth of
-- that it is there. Only those of open runs are needed.
CREATE TABLE records (
    run_key    INTEGER NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
    generation INTEGER NOT NULL,
    step       INTEGER NOT NULL,
    place      TEXT NOT NULL,
    tool       TEXT NOT NULL,
    agent      TEXT NOT NULL,
    hash       TEXT NOT NULL,
    call_id    TEXT NOT NULL,
    begun      INTEGER NOT NULL,
    done       INTEGER NOT NULL,
    output     TEXT,
    PRIMARY KEY (run_key, generation, step, place)
) STRICT;

-- Names had the sub-agent in front that the record stands in. Of a sub-agent in a sub-agent, and of names too long
-- for a place, the place cannot be told: a question mark makes the run fail when it would go on. An approval stands in
-- its call, which its question names. A call without a result may have begun unless its approval is open.
INSERT INTO records (run_key, generation, step, place, tool, agent, hash, call_id, begun, done, output)
WITH scoped AS (
    SELECT m.*, CASE WHEN m.name LIKE 'agent:%/%' THEN substr(m.name, 1, instr(m.name, '/')) ELSE '' END AS scope
    FROM memos m JOIN runs r ON r.key = m.run_key AND r.generation = m.generation
    WHERE r.status IN ('QUEUED', 'RUNNING', 'WAITING')),
named AS (
    SELECT *, substr(name, length(scope) + 1) AS use FROM scoped),
placed AS (
    SELECT *, scope || replace(replace(replace(use, '%', '%25'), '/', '%2F'), '#', '%23') || '#' || n AS place FROM named),
approvals AS (
    SELECT a.*, c.place AS call_place, c.call_id AS of_call FROM placed a
    JOIN interrupts i ON i.run_key = a.run_key AND i.interrupt_id = a.call_id
    JOIN placed c ON c.run_key = a.run_key AND c.step = a.step AND c.use LIKE 'tool:%' AND c.call_id <> ''
        AND instr(i.body, '"toolCallId":"' || c.call_id || '"') > 0
    WHERE a.use LIKE 'approve:%')
SELECT run_key, generation, step, call_place || '/approval', '', '', '', call_id, 0, done, output FROM approvals
UNION ALL
SELECT p.run_key, p.generation, p.step,
    CASE WHEN p.use LIKE 'agent:%/%' OR length(CAST(p.place AS BLOB)) > 250
        THEN '?' || p.name || '#' || p.n ELSE p.place END,
    CASE WHEN p.use LIKE 'tool:%' THEN substr(p.use, 6) ELSE '' END,
    CASE WHEN p.use LIKE 'agent:%' AND p.use NOT LIKE 'agent:%/%' THEN substr(p.use, 7) ELSE '' END, '', p.call_id,
    p.use LIKE 'tool:%' AND NOT p.done
        AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.of_call = p.call_id AND a.run_key = p.run_key AND NOT a.done)
        AND NOT EXISTS (SELECT 1 FROM interrupts i WHERE i.interrupt_id = p.call_id AND i.run_key = p.run_key),
    p.done, p.output
FROM placed p WHERE p.use NOT LIKE 'approve:%'
ON CONFLICT DO NOTHING;

ALTER TABLE interrupts ADD COLUMN place TEXT NOT NULL DEFAULT '';
ALTER TABLE interrupts ADD COLUMN tool TEXT NOT NULL DEFAULT '';
UPDATE interrupts SET place = records.place, tool = records.tool FROM records
WHERE records.run_key = interrupts.run_key AND records.step = interrupts.step AND records.call_id = interrupts.interrupt_id;
ALTER TABLE interrupts DROP COLUMN name;
ALTER TABLE interrupts DROP COLUMN n;

DROP TABLE memos;
ALTER TABLE records RENAME TO memos;
