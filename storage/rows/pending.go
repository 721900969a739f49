package rows

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/eventlog"
	"github.com/batonrun/baton/storage/sqldb"
)

// pending has the rows that a transaction will write, grouped by kind. Changes of a pending row apply here, so flush
// may write the kinds in any order.
type pending struct {
	threads      table[int64, data.Thread]
	threadHeads  table[int64, data.ThreadHead]
	threadStates table[int64, data.ThreadState]
	patches      table[int64, data.ThreadPatch]
	runs         table[int64, data.Run]
	heads        table[int64, data.RunHead]
	results      table[int64, data.RunResult]
	crashes      table[int64, data.RunCrashes]
	ties         table[int64, data.RunTie]
	cancels      []data.CancelAsk
	names        []data.RunName
	spans        table[ordinal, data.Span]
	spanEnds     table[ordinal, data.SpanEnd]
	steps        table[ordinal, data.Step]
	nodes        table[label, data.Node]
	hides        []data.Hide
	messages     table[label, data.Message]
	memos        table[use, data.Memo]
	signals      []data.Signal
	taken        []data.TakenSignals
	withdrawn    table[int64, data.Withdraw]
	answers      table[label, data.Answer]
	interrupts   table[label, data.Interrupt]
	keys         table[string, data.IdempotencyKey]
	uses         []data.AttachmentUse
	prompts      table[label, data.Prompt]
	promptEnds   table[label, data.PromptEnd]
	pieces       []data.PromptPiece
	audit        []data.Audit
	ended        []data.RunEnded
	calls        []data.CallUsage
	raises       []data.Raise
	places       table[int64, data.Place]
}

// Keys of more than one column.
type (
	ordinal struct {
		run int64
		n   int
	}
	label struct {
		of int64 // a run or a thread
		id string
	}
	use struct {
		run              int64
		generation, step int
		place            string
	}
)

// table holds pending rows of a kind in the order they came, one for each key.
type table[K comparable, V any] struct {
	keys []K
	rows []V
	at   map[K]int // the row of each key after the first few
}

// get returns the row of the key, nil when none is pending.
func (t *table[K, V]) get(key K) *V {
	i := slices.Index(t.keys[:min(len(t.keys), few)], key)
	if i < 0 && t.at != nil {
		if at, ok := t.at[key]; ok {
			i = at
		}
	}
	if i < 0 {
		return nil
	}
	return &t.rows[i]
}

// few is how many rows are found faster without a map.
const few = 8

// put adds a row, or replaces the one with the same key.
func (t *table[K, V]) put(key K, row *V) {
	if old := t.get(key); old != nil {
		*old = *row
		return
	}
	if len(t.rows) >= few {
		if t.at == nil {
			t.at = make(map[K]int)
		}
		t.at[key] = len(t.rows)
	}
	t.keys, t.rows = append(t.keys, key), append(t.rows, *row)
}

// reset removes the rows. Their memory is reused unless it is large.
func (t *table[K, V]) reset() {
	if cap(t.rows) > 2*usualRows {
		*t = table[K, V]{}
		return
	}
	clear(t.rows)
	clear(t.keys)
	t.keys, t.rows, t.at = t.keys[:0], t.rows[:0], nil
}

// usualRows is a usual number of rows of a kind in a transaction: one for each decision.
const usualRows = 256

func (p *pending) reset() {
	for _, t := range []interface{ reset() }{
		&p.threads, &p.threadHeads, &p.threadStates, &p.patches, &p.runs, &p.heads, &p.results, &p.crashes, &p.ties,
		&p.spans, &p.spanEnds, &p.steps, &p.nodes, &p.messages, &p.memos, &p.withdrawn, &p.answers, &p.interrupts,
		&p.keys, &p.prompts, &p.promptEnds, &p.places,
	} {
		t.reset()
	}
	p.names, p.hides, p.cancels, p.signals, p.taken = nil, nil, nil, nil, nil
	p.uses, p.pieces, p.audit, p.ended, p.calls, p.raises = nil, nil, nil, nil, nil, nil
}

// Commits is shared by the transactions of one writer: their memory, and the keys of new rows. The writer's lock guards it except the Keys.
type Commits struct {
	Threads, Runs Keys
	Packer        eventlog.Packer

	codec   *eventlog.Codec
	pending pending
}

// NewCommits returns the Commits of a writer.
func NewCommits(codec *eventlog.Codec) *Commits {
	return &Commits{
		Threads: Keys{table: "threads", serves: threadKeysFor}, Runs: Keys{table: "runs", serves: runKeysFor}, codec: codec,
	}
}

// Begin returns the transaction of a batch before it has begun: then the caller sets its Tx and Now.
func (c *Commits) Begin() *Tx {
	c.pending.reset() // the last transaction may have failed
	return &Tx{c: c, pending: &c.pending}
}

// Tx is the transaction of a batch.
type Tx struct {
	*sqldb.Tx
	Now    time.Time
	Events []data.StoredEvent // to be written at its end

	c         *Commits
	pending   *pending
	deletes   []*data.Delete
	committed []func() // called once it is committed
}

// Done notes that the transaction is committed, unless err.
func (tx *Tx) Done(err error) error {
	if err != nil {
		return err
	}
	for _, note := range tx.committed {
		note()
	}
	return nil
}

// Put makes rows pending. Deletions are carried out after all rows of the batch: see Delete.
func (tx *Tx) Put(rows []data.Row) error {
	for _, row := range rows {
		if err := tx.putOne(row); err != nil {
			return tx.Fail(fmt.Errorf("%T: %w", row, err))
		}
	}
	return nil
}

func (tx *Tx) putOne(row data.Row) error {
	p := tx.pending
	switch row := row.(type) {
	case *data.Thread:
		if row.Key == 0 || p.threads.get(row.Key) != nil {
			return fmt.Errorf("key %d", row.Key)
		}
		p.threads.put(row.Key, row)
		if string(row.State) != "{}" {
			p.threadStates.put(row.Key, &data.ThreadState{Key: row.Key, State: row.State})
		}
	case *data.ThreadHead:
		if t := p.threads.get(row.Key); t != nil {
			t.LastEventID, t.LastSeq, t.UpdatedAt = row.LastEventID, row.LastSeq, row.UpdatedAt
			return nil
		}
		p.threadHeads.put(row.Key, row)
	case *data.ThreadState:
		p.threadStates.put(row.Key, row)
	case *data.ThreadPatch:
		patch := *row
		if old := p.patches.get(row.Key); old != nil {
			if patch.Title == nil {
				patch.Title = old.Title
			}
			if patch.Metadata == nil {
				patch.Metadata = old.Metadata
			}
			if patch.Archived == nil {
				patch.Archived = old.Archived
			}
		}
		p.patches.put(row.Key, &patch)
	case *data.Step:
		p.steps.put(ordinal{row.RunKey, row.Number}, row)
	case *data.Node:
		p.nodes.put(label{row.RunKey, row.NodeID}, row)
	case *data.Message:
		p.putMessage(row, tx.Now)
	case *data.Hide:
		for i := range p.messages.rows {
			if m := &p.messages.rows[i]; hidden(row, m) {
				m.State = data.MessageHidden
			}
		}
		p.hides = append(p.hides, *row)
	case *data.Memo:
		p.memos.put(use{row.RunKey, row.Generation, row.Step, row.Place}, row)
	case *data.Signal:
		p.signals = append(p.signals, *row)
	case *data.TakenSignals:
		p.taken = append(p.taken, *row)
	case *data.Interrupt:
		p.interrupts.put(label{row.RunKey, row.ID}, row)
	case *data.Answer:
		p.answer(row)
	case *data.Withdraw:
		for i := range p.interrupts.rows {
			if in := &p.interrupts.rows[i]; in.RunKey == row.RunKey {
				in.Status = data.Withdrawn(in.Status)
			}
		}
		p.withdrawn.put(row.RunKey, row)
	case *data.IdempotencyKey:
		p.keys.put(row.Scope, row)
	case *data.AttachmentUse:
		p.uses = append(p.uses, *row)
	case *data.Prompt:
		p.prompts.put(label{row.RunKey, row.ID}, row)
	case *data.PromptEnd:
		if begun := p.prompts.get(label{row.RunKey, row.ID}); begun != nil {
			begun.End(row)
			return nil
		}
		p.promptEnds.put(label{row.RunKey, row.ID}, row)
	case *data.PromptPiece:
		p.pieces = append(p.pieces, *row)
	case *data.Audit:
		p.audit = append(p.audit, *row)
	case *data.RunEnded:
		p.ended = append(p.ended, *row)
	case *data.CallUsage:
		p.calls = append(p.calls, *row)
	case *data.Raise:
		raise := *row
		same := func(r data.Raise) bool { // PostgreSQL updates a row once in a statement
			amount := r.Amount
			if r.Amount = raise.Amount; r != raise {
				return false
			}
			raise.Amount = max(raise.Amount, amount)
			return true
		}
		p.raises = append(slices.DeleteFunc(p.raises, same), raise)
	case *data.Place:
		p.places.put(row.ThreadKey, row)
	case *data.Delete:
		tx.deletes = append(tx.deletes, row)
	default:
		return p.putRun(row)
	}
	return nil
}

// putRun makes rows of a run, its names and its spans pending.
func (p *pending) putRun(row data.Row) error {
	switch row := row.(type) {
	case *data.Run:
		if row.Key == 0 || p.runs.get(row.Key) != nil {
			return fmt.Errorf("key %d", row.Key)
		}
		p.runs.put(row.Key, row)
	case *data.RunHead:
		if run := p.runs.get(row.Key); run != nil {
			created := run.CreatedAt
			run.RunHead = *row
			run.CreatedAt = created
			return nil
		}
		p.heads.put(row.Key, row)
	case *data.RunResult:
		if run := p.runs.get(row.Key); run != nil {
			run.OutputSummary, run.Usage = row.OutputSummary, row.Usage
			return nil
		}
		p.results.put(row.Key, row)
	case *data.RunCrashes:
		if run := p.runs.get(row.Key); run != nil {
			run.Attempt = row.Attempt
		} else if head := p.heads.get(row.Key); head != nil {
			head.Attempt = row.Attempt
		} else {
			p.crashes.put(row.Key, row)
		}
	case *data.RunTie:
		if run := p.runs.get(row.Key); run != nil {
			run.TiedTo = row.TiedTo
		} else {
			p.ties.put(row.Key, row)
		}
	case *data.CancelAsk:
		if p.runs.get(row.RunKey) == nil { // its owner has made it
			p.cancels = append(p.cancels, *row)
		}
	case *data.RunName:
		p.names = append(p.names, *row)
	case *data.Span:
		key := ordinal{row.RunKey, row.N}
		if p.spans.get(key) != nil {
			return fmt.Errorf("span %d of run %d exists", row.N, row.RunKey)
		}
		p.spans.put(key, row)
	case *data.SpanEnd:
		key := ordinal{row.RunKey, row.N}
		if span := p.spans.get(key); span != nil {
			span.Last = row.Last
			return nil
		}
		p.spanEnds.put(key, row)
	default:
		return errors.New("unknown kind of row")
	}
	return nil
}

// putMessage makes a message pending. A message that is put again keeps its first CreatedAt.
func (p *pending) putMessage(row *data.Message, now time.Time) {
	m, key := *row, label{row.ThreadKey, row.ID}
	if old := p.messages.get(key); old != nil {
		m.CreatedAt = old.CreatedAt
	} else if m.CreatedAt.IsZero() {
		m.CreatedAt = now
	}
	p.messages.put(key, &m)
}

// answer changes the interrupt and the memo if they are pending. The answer becomes pending too, as it also changes stored rows.
func (p *pending) answer(row *data.Answer) {
	if in := p.interrupts.get(label{row.RunKey, row.ID}); in != nil {
		in.Status, in.Payload = data.InterruptAnswered, row.Payload
	}
	if memo := p.memos.get(use{row.RunKey, row.Generation, row.Step, row.Place}); memo != nil {
		memo.Done, memo.Output = true, row.Output
	}
	p.answers.put(label{row.RunKey, row.ID}, row)
}

// Flush writes the pending rows. Rows come after the rows they refer to, changes of stored rows before rows that replace these,
// and a run leaves RUNNING or WAITING before another run of its thread enters. Ends come before begins in each table, so a
// transaction with both takes at most two write batches.
func (tx *Tx) Flush() error {
	if err := tx.writePending(); err != nil {
		return err
	}
	return tx.Send()
}

func (tx *Tx) writePending() error {
	p := tx.pending
	active := func(h data.RunHead) bool { return h.Status == data.Running || h.Status == data.Waiting }
	leaving, entering := divide(p.heads.rows, active)
	leaving, ended := p.withResults(leaving)
	sqldb.Write(tx.Tx, p.threadHeads.rows, updateThread, threadHeadCells)
	sqldb.Write(tx.Tx, p.crashes.rows, crashRun, crashesCells)
	sqldb.Write(tx.Tx, p.ties.rows, tieRun, tieCells)
	sqldb.Write(tx.Tx, leaving, updateRun, headCells)
	sqldb.Write(tx.Tx, ended, endRun, endedCells)
	sqldb.Write(tx.Tx, p.results.rows, updateResult, resultCells)
	sqldb.Write(tx.Tx, p.spanEnds.rows, endSpan, spanEndCells)
	sqldb.Write(tx.Tx, p.promptEnds.rows, endPrompt, promptEndCells)
	left, placed := divide(p.places.rows, func(p data.Place) bool { return p.Todo != data.NoTodo })
	sqldb.Write(tx.Tx, left, deletePlace, leftCells)

	if err := errors.Join(tx.c.Threads.note(tx, p.threads.keys), tx.c.Runs.note(tx, p.runs.keys)); err != nil {
		return err
	}
	sqldb.Write(tx.Tx, p.threads.rows, insertThread, threadCells)
	sqldb.Write(tx.Tx, p.threadStates.rows, upsertState, stateCells)
	sqldb.Write(tx.Tx, p.patches.rows, patchThread, patchCells)
	sqldb.Write(tx.Tx, entering, updateRun, headCells)
	sqldb.Write(tx.Tx, p.cancels, askCancel, cancelCells)
	sqldb.Write(tx.Tx, p.runs.rows, insertRun, runCells)
	sqldb.Write(tx.Tx, p.runs.rows, insertInput, inputCells)
	sqldb.Write(tx.Tx, p.runs.rows, insertTerms, termCells)
	sqldb.Write(tx.Tx, p.names, insertName, nameCells)
	sqldb.Write(tx.Tx, p.spans.rows, insertSpan, spanCells)
	if err := tx.writeSteps(); err != nil {
		return err
	}

	many, single := divide(p.hides, func(h data.Hide) bool { return h.ID != "" })
	ofThreads, ofRuns := divide(many, func(h data.Hide) bool { return h.RunKey != 0 })
	sqldb.Write(tx.Tx, ofThreads, hideOfThread, hideOfThreadCells)
	sqldb.Write(tx.Tx, ofRuns, hideOfRun, hideOfRunCells)
	sqldb.Write(tx.Tx, single, hideOne, hideOneCells)
	said, queued := divide(p.messages.rows, func(m data.Message) bool { return m.State == data.MessageQueued })
	sqldb.Write(tx.Tx, said, upsertMessage, messageCells)
	sqldb.Write(tx.Tx, queued, insertMessage, messageCells)
	sqldb.Write(tx.Tx, p.answers.rows, answerInterrupt, answerCells)
	sqldb.Write(tx.Tx, p.withdrawn.rows, withdrawInterrupts, withdrawnCells)
	sqldb.Write(tx.Tx, p.interrupts.rows, upsertInterrupt, interruptCells)
	sqldb.Write(tx.Tx, p.answers.rows, completeMemo, completionCells)
	sqldb.Write(tx.Tx, p.memos.rows, upsertMemo, memoCells)
	sqldb.Write(tx.Tx, p.signals, insertSignal, signalCells)
	sqldb.Write(tx.Tx, p.taken, takeSignals, takenCells)
	if err := tx.writeKeys(); err != nil {
		return err
	}
	sqldb.Write(tx.Tx, p.uses, insertUse, useCells)
	sqldb.Write(tx.Tx, p.uses, useAttachment, usedCells)
	sqldb.Write(tx.Tx, p.prompts.rows, insertPrompt, promptCells)
	if err := tx.dropPieces(); err != nil {
		return err
	}
	sqldb.Write(tx.Tx, p.pieces, insertPiece, pieceCells)
	sqldb.Write(tx.Tx, p.pieces, insertPieceUse, pieceUseCells)
	sqldb.Write(tx.Tx, p.audit, insertAudit, auditCells)
	sqldb.Write(tx.Tx, p.ended, insertRunEnded, runEndedCells)
	sqldb.Write(tx.Tx, p.calls, insertModelCall, modelCallCells)
	sqldb.Write(tx.Tx, p.raises, upsertRaise, raiseCells)
	sqldb.Write(tx.Tx, placed, upsertPlace, placeCells)
	p.reset()
	return tx.Err()
}

// Finish writes the pending rows, then the events.
func (tx *Tx) Finish() error {
	if err := tx.writePending(); err != nil {
		return err
	}
	defer tx.c.Packer.Done()
	list, err := tx.c.Packer.Pack(tx.Events)
	if err != nil {
		return tx.Fail(err)
	}
	tx.Events = nil
	sqldb.Write(tx.Tx, list, insertEvents, func(r *eventlog.Row) []any {
		payload := any(r.Payload)
		if tx.DB.Single { // whose text is not bytes
			payload = string(r.Payload)
		}
		return []any{r.Thread, r.First, r.Last, r.Run, tx.Now, payload}
	})
	return tx.Send()
}

// endedRun is a run that ends, with its result.
type endedRun struct {
	head   data.RunHead
	result data.RunResult
}

// withResults divides runs into those without and those with a pending result, and removes these results.
func (p *pending) withResults(heads []data.RunHead) (without []data.RunHead, with []endedRun) {
	for _, h := range heads {
		if r := p.results.get(h.Key); r != nil {
			with = append(with, endedRun{h, *r})
		} else {
			without = append(without, h)
		}
	}
	ended := make(map[int64]bool, len(with))
	for i := range with {
		ended[with[i].head.Key] = true
	}
	p.results.rows = slices.DeleteFunc(p.results.rows, func(r data.RunResult) bool { return ended[r.Key] })
	return without, with
}

// divide returns the rows for which is returns false, and those for which it returns true.
func divide[V any](rows []V, is func(V) bool) (no, yes []V) {
	for _, row := range rows {
		if is(row) {
			yes = append(yes, row)
		} else {
			no = append(no, row)
		}
	}
	return no, yes
}
