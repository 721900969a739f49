package memory

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// put writes rows in order.
func (tx *tx) put(list []data.Row) error {
	for _, row := range list {
		if err := tx.putOne(row); err != nil {
			return fmt.Errorf("%T: %w", row, err)
		}
	}
	return nil
}

var (
	errTaken   = errors.New("the key or the name is taken")
	errMissing = errors.New("what it belongs to is not there")
)

func (tx *tx) putOne(row data.Row) error {
	switch row := row.(type) {
	case *data.Thread:
		return tx.putThread(row)
	case *data.ThreadHead:
		head, err := kept(row)
		if err != nil {
			return err
		}
		tx.threads.change(tx, row.Key, func(t *data.Thread) {
			t.LastEventID, t.LastSeq, t.UpdatedAt = head.LastEventID, head.LastSeq, head.UpdatedAt
		})
	case *data.ThreadState:
		state, err := kept(row)
		if err != nil {
			return err
		}
		if tx.threads[row.Key] == nil {
			return errMissing
		}
		tx.threads.change(tx, row.Key, func(t *data.Thread) { t.State = state.State })
	case *data.ThreadPatch:
		return tx.patch(row)
	case *data.Message:
		return tx.putMessage(row)
	case *data.Hide:
		tx.hide(row)
	case *data.IdempotencyKey:
		key, err := kept(row)
		if err != nil {
			return err
		}
		if tx.remembered[row.Scope] != nil && !row.Replaces {
			return fmt.Errorf("%w: the Idempotency-Key %q", errTaken, row.Scope)
		}
		tx.remembered.put(tx, row.Scope, key)
	case *data.AttachmentUse: // attachments are not stored
	case *data.Audit:
		entry, err := kept(row)
		if err != nil {
			return err
		}
		entry.Key = int64(len(tx.audit) + 1)
		tx.audit.put(tx, entry.Key, entry)
	case *data.CallUsage:
		key := spending{data.Day(row.At).UnixMilli(), row.Spender()}
		sum := data.Spending{Spender: row.Spender(), Tokens: row.Tokens(), Cost: row.Cost}
		if old := tx.spent[key]; old != nil {
			sum.Tokens += old.Tokens
			sum.Cost += old.Cost
		}
		tx.spent.put(tx, key, &sum)
	case *data.Raise:
		raise := *row
		raise.From = raise.From.UTC()
		key := raise
		key.Amount = 0
		if old := tx.raises[key]; old != nil {
			raise.Amount = max(raise.Amount, old.Amount)
		}
		tx.raises.put(tx, key, &raise)
	case *data.Place:
		if row.Todo == data.NoTodo {
			tx.queue.drop(tx, row.ThreadKey)
			return nil
		}
		place := placed{Place: *row, at: time.Now()}
		place.Since = place.Since.UTC()
		tx.queue.put(tx, row.ThreadKey, &place)
	case *data.RunEnded: // statistics are not stored
	case *data.RunTie: // nor connections
	case *data.Delete:
		tx.delete(row)
	case *data.Run, *data.RunHead, *data.CancelAsk, *data.RunResult, *data.RunCrashes, *data.RunName, *data.Span, *data.SpanEnd:
		return tx.putRun(row)
	default:
		return tx.putOfRun(row)
	}
	return nil
}

func (tx *tx) putThread(row *data.Thread) error {
	thread, err := kept(row)
	if err != nil {
		return err
	}
	if row.Key == 0 || tx.threads[row.Key] != nil {
		return errTaken
	}
	for _, old := range tx.threads {
		if old.ConversationID == row.ConversationID || nameOf(old) == nameOf(row) {
			return errTaken
		}
	}
	tx.threads.put(tx, row.Key, thread)
	return nil
}

func nameOf(t *data.Thread) data.Name {
	return data.Name{Project: t.Project, User: t.User, ID: t.ID}
}

func (tx *tx) patch(row *data.ThreadPatch) error {
	patch, err := kept(row)
	if err != nil {
		return err
	}
	tx.threads.change(tx, row.Key, func(t *data.Thread) {
		if patch.Title != nil {
			t.Title = *patch.Title
		}
		if patch.Metadata != nil {
			if t.Metadata = patch.Metadata; string(t.Metadata) == "null" {
				t.Metadata = nil
			}
		}
		if patch.Archived != nil {
			t.Archived = *patch.Archived
		}
	})
	return nil
}

// putMessage keeps the key and time of the row that it replaces. It checks that an encoded form is the message's,
// because the databases store that form.
func (tx *tx) putMessage(row *data.Message) error {
	m, err := kept(row)
	if err != nil {
		return err
	}
	if m.Encoded != nil && !bytes.Equal(m.Encoded, m.AppendJSON(nil, agui.Stored)) {
		return errors.New("its stored form is that of another message")
	}
	m.Encoded = nil
	if tx.threads[row.ThreadKey] == nil || row.RunKey != 0 && tx.runs[row.RunKey] == nil {
		return errMissing
	}
	if old := tx.messages[row.ThreadKey][row.ID]; old != nil && row.State == data.MessageQueued {
		return fmt.Errorf("%w: the message %q", errTaken, row.ID)
	} else if old != nil {
		m.Key, m.CreatedAt = old.Key, old.CreatedAt
	} else {
		tx.lastRow++
		m.Key = tx.lastRow
		if m.CreatedAt.IsZero() {
			m.CreatedAt = tx.at
		}
	}
	if !m.Day.IsZero() {
		m.Day = dayOf(m.Day)
	}
	tx.messages.of(row.ThreadKey).put(tx, row.ID, m)
	return nil
}

func (tx *tx) hide(h *data.Hide) {
	for id, m := range tx.messages[h.ThreadKey] {
		if id == h.ID || h.ID == "" && (h.RunKey == 0 || m.RunKey == h.RunKey) &&
			(h.Queued && m.State == data.MessageQueued || h.FromEvent > 0 && m.EventID >= h.FromEvent || h.FromSeq > 0 && m.Seq >= h.FromSeq) {
			tx.messages[h.ThreadKey].change(tx, id, func(m *data.Message) { m.State = data.MessageHidden })
		}
	}
}

// putRun writes rows of the run itself, its names and spans.
func (tx *tx) putRun(row data.Row) error {
	switch row := row.(type) {
	case *data.Run:
		run, err := kept(row)
		if err != nil {
			return err
		}
		if row.Key == 0 || tx.runs[row.Key] != nil {
			return errTaken
		}
		if tx.threads[row.ThreadKey] == nil {
			return errMissing
		}
		if run.Status == data.Running {
			tx.begins(&run.RunHead)
		}
		tx.runs.put(tx, row.Key, run)
		tx.touched[row.ThreadKey] = true
	case *data.RunHead:
		head, err := kept(row)
		if err != nil {
			return err
		}
		tx.runs.change(tx, row.Key, func(r *data.Run) {
			tx.touched[r.ThreadKey] = true
			old := r.RunHead
			tx.checkHead(&old, head)
			r.RunHead = *head
			r.ThreadKey, r.Project, r.User, r.ID = old.ThreadKey, old.Project, old.User, old.ID
			r.Agent, r.WorkflowID, r.CreatedAt = old.Agent, old.WorkflowID, old.CreatedAt
			if old.Status != data.Running && r.Status == data.Running {
				tx.begins(&r.RunHead)
			}
		})
		if row.Status != data.Running {
			tx.asks.drop(tx, row.Key)
		}
	case *data.CancelAsk:
		ask, err := kept(row)
		if err != nil {
			return err
		}
		if run := tx.runs[row.RunKey]; run != nil && run.Status == data.Running && tx.asks[row.RunKey] == nil {
			tx.asks.put(tx, row.RunKey, ask)
		}
	case *data.RunResult:
		result, err := kept(row)
		if err != nil {
			return err
		}
		tx.runs.change(tx, row.Key, func(r *data.Run) { r.OutputSummary, r.Usage = result.OutputSummary, result.Usage })
	case *data.RunCrashes:
		tx.runs.change(tx, row.Key, func(r *data.Run) { r.Attempt = row.Attempt })
	case *data.RunName:
		name, err := kept(row)
		if err != nil {
			return err
		}
		key := data.Name{Project: row.Project, User: row.User, ID: row.Name}
		if tx.names[key] != nil {
			return errTaken
		}
		if tx.runs[row.RunKey] == nil {
			return errMissing
		}
		tx.names.put(tx, key, name)
	case *data.Span:
		return tx.putSpan(row)
	case *data.SpanEnd:
		if run := tx.runs[row.RunKey]; run != nil {
			tx.spans.of(run.ThreadKey).change(tx, ordinal{row.RunKey, row.N}, func(s *data.Span) { s.Last = row.Last })
		}
	}
	return nil
}

func (tx *tx) putSpan(row *data.Span) error {
	span, err := kept(row)
	if err != nil {
		return err
	}
	run, key := tx.runs[row.RunKey], ordinal{row.RunKey, row.N}
	if run == nil || run.ThreadKey != row.ThreadKey {
		return errMissing
	}
	if tx.spans[row.ThreadKey][key] != nil {
		return errTaken
	}
	tx.spans.of(row.ThreadKey).put(tx, key, span)
	tx.touched[row.ThreadKey] = true
	return nil
}

// putOfRun writes rows that belong to a run.
func (tx *tx) putOfRun(row data.Row) error {
	switch row := row.(type) {
	case *data.Step:
		return putUnder(tx, tx.steps, row.RunKey, row.Number, row)
	case *data.Node:
		return putUnder(tx, tx.nodes, row.RunKey, row.NodeID, row)
	case *data.Memo:
		return putUnder(tx, tx.memos, row.RunKey, use{row.Generation, row.Step, row.Place}, row)
	case *data.Signal:
		return putUnder(tx, tx.signals, row.RunKey, row.N, row)
	case *data.TakenSignals:
		for n := range tx.signals[row.RunKey] {
			if row.From <= n && n <= row.To {
				tx.signals[row.RunKey].drop(tx, n)
			}
		}
	case *data.Interrupt:
		in := &interrupt{Interrupt: *row}
		if old := tx.interrupts[row.RunKey][row.ID]; old != nil {
			in.Key = old.Key
		} else {
			tx.lastRow++
			in.Key = tx.lastRow
		}
		return putUnder(tx, tx.interrupts, row.RunKey, row.ID, in)
	case *data.Answer:
		a, err := kept(row)
		if err != nil {
			return err
		}
		tx.interrupts.of(row.RunKey).change(tx, row.ID, func(in *interrupt) {
			in.Status, in.Payload = data.InterruptAnswered, a.Payload
		})
		tx.memos.of(row.RunKey).change(tx, use{row.Generation, row.Step, row.Place}, func(m *data.Memo) {
			m.Done, m.Output = true, a.Output
		})
	case *data.Prompt:
		return putUnder(tx, tx.prompts, row.RunKey, row.ID, row)
	case *data.PromptEnd:
		end, err := kept(row)
		if err != nil {
			return err
		}
		tx.prompts.of(row.RunKey).change(tx, row.ID, func(p *data.Prompt) { p.End(end) })
	case *data.PromptPiece:
		if tx.runs[row.RunKey] == nil {
			return nil
		}
		piece, err := kept(row)
		if err != nil {
			return err
		}
		if tx.pieces[row.ID] == nil {
			tx.pieces.put(tx, row.ID, piece)
		}
		return putUnder(tx, tx.uses, row.RunKey, row.ID, &row.ID)
	case *data.Withdraw:
		for id, in := range tx.interrupts[row.RunKey] {
			if data.Withdrawn(in.Status) != in.Status {
				tx.interrupts[row.RunKey].change(tx, id, func(in *interrupt) { in.Status = data.Withdrawn(in.Status) })
			}
		}
	default:
		return errors.New("unknown kind of row")
	}
	return nil
}

func putUnder[K comparable, V any](tx *tx, t table[K, V], run int64, key K, row *V) error {
	r, err := kept(row)
	if err != nil {
		return err
	}
	if tx.runs[run] == nil {
		return errMissing
	}
	t.of(run).put(tx, key, r)
	return nil
}

// deletion is a deletion of which parts are left, and the instance that began it.
type deletion struct {
	data.Deletion
	instance string
}

// delete removes the next part of a run or thread.
func (tx *tx) delete(d *data.Delete) {
	th := tx.threads[d.ThreadKey]
	tx.deletePart(d)
	if d.Left {
		note := data.Deletion{ThreadKey: d.ThreadKey, RunKey: d.RunKey, Project: th.Project, Events: d.Events, Last: d.Last}
		by := tx.writer
		if began := tx.deletions[part{d.ThreadKey, d.RunKey}]; began != nil {
			by = began.instance
		}
		tx.deletions.put(tx, part{d.ThreadKey, d.RunKey}, &deletion{note, by})
		return
	}
	for at := range tx.deletions {
		if at.thread == d.ThreadKey && (d.RunKey == 0 || d.RunKey == at.run) {
			tx.deletions.drop(tx, at)
		}
	}
}

func (tx *tx) deletePart(d *data.Delete) {
	d.Left = false
	if tx.threads[d.ThreadKey] == nil {
		return
	}
	removals := int64(1)
	if n := tx.removals[d.ThreadKey]; n != nil {
		removals += *n
	}
	tx.removals.put(tx, d.ThreadKey, &removals)
	if log := tx.events[d.ThreadKey]; len(log) > 0 { // ids are not reused
		tx.threads.change(tx, d.ThreadKey, func(t *data.Thread) { t.LastEventID = max(t.LastEventID, log[len(log)-1].ID) })
	}
	if d.RunKey != 0 {
		d.Left = tx.deleteEvents(d.ThreadKey, d.RunKey, d.Limit)
		if !d.Left {
			tx.deleteRun(d.ThreadKey, d.RunKey, d.Events)
		}
		return
	}
	left := d.Limit
	if log := tx.events[d.ThreadKey]; len(log) > 0 {
		n := min(left, len(log))
		tx.setLog(d.ThreadKey, log[n:])
		left -= n
	}
	some := func(n int) int {
		n = min(n, max(left, 0))
		left -= n
		return n
	}
	messages := tx.messages[d.ThreadKey].sorted(all, func(a, b *data.Message) int { return cmp.Compare(a.Key, b.Key) })
	for _, m := range messages[:some(len(messages))] {
		tx.messages[d.ThreadKey].drop(tx, m.ID)
	}
	runs := tx.runs.sorted(func(r *data.Run) bool { return r.ThreadKey == d.ThreadKey }, byKey)
	for _, run := range runs[:some(len(runs))] {
		for scope, key := range tx.remembered {
			if key.RunKey == run.Key {
				tx.remembered.drop(tx, scope)
			}
		}
		tx.deleteRun(d.ThreadKey, run.Key, false)
	}
	if d.Left = left <= 0; !d.Left {
		tx.threads.drop(tx, d.ThreadKey)
	}
}

// deleteEvents removes the next part of a run's events.
func (tx *tx) deleteEvents(thread, run int64, limit int) (left bool) {
	var kept []data.StoredEvent
	for i, ev := range tx.events[thread] {
		if ev.RunKey == run && limit == 0 {
			tx.setLog(thread, append(kept, tx.events[thread][i:]...))
			return true
		}
		if ev.RunKey == run {
			limit--
		} else {
			kept = append(kept, ev)
		}
	}
	tx.setLog(thread, kept)
	return false
}

// dropPieces removes the pieces that no other run uses.
func (tx *tx) dropPieces(run int64) {
	for id := range tx.uses[run] {
		used := false
		for other, pieces := range tx.uses {
			used = used || other != run && pieces[id] != nil
		}
		if !used {
			tx.pieces.drop(tx, id)
		}
	}
	tx.uses.dropAll(tx, run)
}

func byKey(a, b *data.Run) int { return cmp.Compare(a.Key, b.Key) }

func (tx *tx) deleteRun(thread, run int64, eventsAlone bool) {
	tx.deleteEvents(thread, run, len(tx.events[thread]))
	for key := range tx.spans[thread] {
		if key.run == run {
			tx.spans[thread].drop(tx, key)
		}
	}
	if eventsAlone {
		return
	}
	for name, n := range tx.names {
		if n.RunKey == run {
			tx.names.drop(tx, name)
		}
	}
	for id, m := range tx.messages[thread] {
		if m.RunKey == run {
			tx.messages[thread].drop(tx, id)
		}
	}
	tx.steps.dropAll(tx, run)
	tx.nodes.dropAll(tx, run)
	tx.memos.dropAll(tx, run)
	tx.signals.dropAll(tx, run)
	tx.interrupts.dropAll(tx, run)
	tx.prompts.dropAll(tx, run)
	tx.dropPieces(run)
	tx.runs.drop(tx, run)
}
