package memory

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
)

// put writes rows in order.
func (tx *tx) put(list []model.Row) error {
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

func (tx *tx) putOne(row model.Row) error {
	switch row := row.(type) {
	case *model.Thread:
		return tx.putThread(row)
	case *model.ThreadHead:
		head, err := kept(row)
		if err != nil {
			return err
		}
		tx.threads.change(tx, row.Key, func(t *model.Thread) {
			t.LastEventID, t.LastSeq, t.UpdatedAt = head.LastEventID, head.LastSeq, head.UpdatedAt
		})
	case *model.ThreadState:
		state, err := kept(row)
		if err != nil {
			return err
		}
		if tx.threads[row.Key] == nil {
			return errMissing
		}
		tx.threads.change(tx, row.Key, func(t *model.Thread) { t.State = state.State })
	case *model.ThreadPatch:
		return tx.patch(row)
	case *model.Message:
		return tx.putMessage(row)
	case *model.Hide:
		tx.hide(row)
	case *model.IdempotencyKey:
		key, err := kept(row)
		if err != nil {
			return err
		}
		tx.remembered.put(tx, row.Scope, key)
	case *model.AttachmentUse: // attachments are not stored
	case *model.Audit:
		entry, err := kept(row)
		if err != nil {
			return err
		}
		entry.Key = int64(len(tx.audit) + 1)
		tx.audit.put(tx, entry.Key, entry)
	case *model.CallUsage:
		key := spending{model.Day(row.At).UnixMilli(), row.Spender()}
		sum := model.Spending{Spender: row.Spender(), Tokens: row.Tokens(), Cost: row.Cost}
		if old := tx.spent[key]; old != nil {
			sum.Tokens += old.Tokens
			sum.Cost += old.Cost
		}
		tx.spent.put(tx, key, &sum)
	case *model.Raise:
		raise := *row
		raise.From = raise.From.UTC()
		key := raise
		key.Amount = 0
		if old := tx.raises[key]; old != nil {
			raise.Amount = max(raise.Amount, old.Amount)
		}
		tx.raises.put(tx, key, &raise)
	case *model.RunEnded: // statistics are not stored
	case *model.Delete:
		tx.delete(row)
	case *model.Run, *model.RunHead, *model.RunResult, *model.RunSettled, *model.RunName, *model.Span, *model.SpanEnd:
		return tx.putRun(row)
	default:
		return tx.putOfRun(row)
	}
	return nil
}

func (tx *tx) putThread(row *model.Thread) error {
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

func nameOf(t *model.Thread) model.Name {
	return model.Name{Project: t.Project, User: t.User, ID: t.ID}
}

func (tx *tx) patch(row *model.ThreadPatch) error {
	patch, err := kept(row)
	if err != nil {
		return err
	}
	tx.threads.change(tx, row.Key, func(t *model.Thread) {
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
func (tx *tx) putMessage(row *model.Message) error {
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
	if old := tx.messages[row.ThreadKey][row.ID]; old != nil {
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

func (tx *tx) hide(h *model.Hide) {
	for id, m := range tx.messages[h.ThreadKey] {
		if (h.RunKey == 0 || m.RunKey == h.RunKey) &&
			(h.Queued && m.State == model.MessageQueued || h.FromEvent > 0 && m.EventID >= h.FromEvent || h.FromSeq > 0 && m.Seq >= h.FromSeq) {
			tx.messages[h.ThreadKey].change(tx, id, func(m *model.Message) { m.State = model.MessageHidden })
		}
	}
}

// putRun writes rows of the run itself, its names and spans.
func (tx *tx) putRun(row model.Row) error {
	switch row := row.(type) {
	case *model.Run:
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
		tx.runs.put(tx, row.Key, run)
		tx.touched[row.ThreadKey] = true
	case *model.RunHead:
		head, err := kept(row)
		if err != nil {
			return err
		}
		tx.runs.change(tx, row.Key, func(r *model.Run) {
			tx.touched[r.ThreadKey] = true
			old := r.RunHead
			r.RunHead = *head
			r.ThreadKey, r.Project, r.User, r.ID = old.ThreadKey, old.Project, old.User, old.ID
			r.Agent, r.WorkflowID, r.CreatedAt = old.Agent, old.WorkflowID, old.CreatedAt
		})
	case *model.RunResult:
		result, err := kept(row)
		if err != nil {
			return err
		}
		tx.runs.change(tx, row.Key, func(r *model.Run) { r.OutputSummary, r.Usage = result.OutputSummary, result.Usage })
	case *model.RunSettled:
		tx.runs.change(tx, row.Key, func(r *model.Run) { r.Attempt = 0 })
	case *model.RunName:
		name, err := kept(row)
		if err != nil {
			return err
		}
		key := model.Name{Project: row.Project, User: row.User, ID: row.Name}
		if tx.names[key] != nil {
			return errTaken
		}
		if tx.runs[row.RunKey] == nil {
			return errMissing
		}
		tx.names.put(tx, key, name)
	case *model.Span:
		return tx.putSpan(row)
	case *model.SpanEnd:
		if run := tx.runs[row.RunKey]; run != nil {
			tx.spans.of(run.ThreadKey).change(tx, ordinal{row.RunKey, row.N}, func(s *model.Span) { s.Last = row.Last })
		}
	}
	return nil
}

func (tx *tx) putSpan(row *model.Span) error {
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
func (tx *tx) putOfRun(row model.Row) error {
	switch row := row.(type) {
	case *model.Step:
		return putUnder(tx, tx.steps, row.RunKey, row.Number, row)
	case *model.Node:
		return putUnder(tx, tx.nodes, row.RunKey, row.NodeID, row)
	case *model.Memo:
		return putUnder(tx, tx.memos, row.RunKey, use{row.Generation, row.Step, row.Place}, row)
	case *model.Interrupt:
		in := &interrupt{Interrupt: *row}
		if old := tx.interrupts[row.RunKey][row.ID]; old != nil {
			in.Key = old.Key
		} else {
			tx.lastRow++
			in.Key = tx.lastRow
		}
		return putUnder(tx, tx.interrupts, row.RunKey, row.ID, in)
	case *model.Answer:
		a, err := kept(row)
		if err != nil {
			return err
		}
		tx.interrupts.of(row.RunKey).change(tx, row.ID, func(in *interrupt) {
			in.Status, in.Payload = model.InterruptAnswered, a.Payload
		})
		tx.memos.of(row.RunKey).change(tx, use{row.Generation, row.Step, row.Place}, func(m *model.Memo) {
			m.Done, m.Output = true, a.Output
		})
	case *model.Prompt:
		return putUnder(tx, tx.prompts, row.RunKey, row.ID, row)
	case *model.PromptEnd:
		end, err := kept(row)
		if err != nil {
			return err
		}
		tx.prompts.of(row.RunKey).change(tx, row.ID, func(p *model.Prompt) { p.End(end) })
	case *model.PromptPiece:
		piece, err := kept(row)
		if err != nil {
			return err
		}
		if tx.pieces[row.ID] == nil {
			tx.pieces.put(tx, row.ID, piece)
		}
		return putUnder(tx, tx.uses, row.RunKey, row.ID, &row.ID)
	case *model.Withdraw:
		for id, in := range tx.interrupts[row.RunKey] {
			if in.Status == model.InterruptOpen {
				tx.interrupts[row.RunKey].change(tx, id, func(in *interrupt) { in.Status = model.InterruptCancelled })
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

// delete removes the next part of a run or thread.
func (tx *tx) delete(d *model.Delete) {
	th := tx.threads[d.ThreadKey]
	tx.deletePart(d)
	if d.Left {
		note := model.Deletion{ThreadKey: d.ThreadKey, RunKey: d.RunKey, Project: th.Project, Events: d.Events, Last: d.Last}
		tx.deletions.put(tx, part{d.ThreadKey, d.RunKey}, &note)
		return
	}
	for at := range tx.deletions {
		if at.thread == d.ThreadKey && (d.RunKey == 0 || d.RunKey == at.run) {
			tx.deletions.drop(tx, at)
		}
	}
}

func (tx *tx) deletePart(d *model.Delete) {
	d.Left = false
	if tx.threads[d.ThreadKey] == nil {
		return
	}
	if log := tx.events[d.ThreadKey]; len(log) > 0 { // ids are not reused
		tx.threads.change(tx, d.ThreadKey, func(t *model.Thread) { t.LastEventID = max(t.LastEventID, log[len(log)-1].ID) })
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
	messages := tx.messages[d.ThreadKey].sorted(all, func(a, b *model.Message) int { return cmp.Compare(a.Key, b.Key) })
	for _, m := range messages[:some(len(messages))] {
		tx.messages[d.ThreadKey].drop(tx, m.ID)
	}
	runs := tx.runs.sorted(func(r *model.Run) bool { return r.ThreadKey == d.ThreadKey }, byKey)
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
	var kept []model.StoredEvent
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

func byKey(a, b *model.Run) int { return cmp.Compare(a.Key, b.Key) }

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
	tx.interrupts.dropAll(tx, run)
	tx.prompts.dropAll(tx, run)
	tx.dropPieces(run)
	tx.runs.drop(tx, run)
}
