package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

func inComing(a, b *data.Message) int { return cmp.Compare(a.Key, b.Key) }

func bySeq(a, b *data.Message) int {
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Key, b.Key))
}

// ofRun returns the run's admitted messages in the order of their keys.
func (db *Database) ofRun(run int64, admits func(*data.Message) bool) []*data.Message {
	r := db.runs[run]
	if r == nil {
		return nil
	}
	return db.messages[r.ThreadKey].sorted(func(m *data.Message) bool { return m.RunKey == run && admits(m) }, inComing)
}

func sizeOf(m *data.Message) int { return len(m.Content) + len(m.Parts) + len(m.Metadata) }

// RunMessages lists a run's messages that are not hidden: see [data.Reader].
func (db *Database) RunMessages(ctx context.Context, project string, runKey, after int64, limit int) (data.Page[data.Message], error) {
	return read(ctx, db, func() data.Page[data.Message] {
		list := db.ofRun(db.runIn(project, runKey), func(m *data.Message) bool { return m.State != data.MessageHidden })
		return page(list, func(m *data.Message) bool { return m.Key <= after }, limit, sizeOf)
	})
}

// Prompts lists a run's calls of models with an id behind after, by id.
func (db *Database) Prompts(ctx context.Context, project string, runKey int64, after string, limit int) (data.Page[data.Prompt], error) {
	return read(ctx, db, func() data.Page[data.Prompt] {
		list := db.prompts[db.runIn(project, runKey)].sorted(all, func(a, b *data.Prompt) int { return cmp.Compare(a.ID, b.ID) })
		return page(list, func(p *data.Prompt) bool { return p.ID <= after }, limit, func(p *data.Prompt) int { return len(p.Sent) })
	})
}

// Prompt returns a call of a model.
func (db *Database) Prompt(ctx context.Context, project string, runKey int64, id string) (data.Prompt, error) {
	return one(ctx, db, func() *data.Prompt { return db.prompts[db.runIn(project, runKey)][id] })
}

// PromptPieces returns those of the pieces that runs of a thread use.
func (db *Database) PromptPieces(ctx context.Context, project string, threadKey int64, ids []string) (data.Page[data.PromptPiece], error) {
	return read(ctx, db, func() data.Page[data.PromptPiece] {
		thread := db.threadIn(project, threadKey)
		used := func(id string) bool {
			for key, run := range db.runs {
				if run.ThreadKey == thread && db.uses[key][id] != nil {
					return true
				}
			}
			return false
		}
		list := db.pieces.sorted(func(p *data.PromptPiece) bool { return slices.Contains(ids, p.ID) && used(p.ID) },
			func(a, b *data.PromptPiece) int { return cmp.Compare(a.ID, b.ID) })
		p := page(list, func(*data.PromptPiece) bool { return false }, len(ids), func(p *data.PromptPiece) int { return len(p.Body) })
		for i := range p.Rows {
			p.Rows[i].RunKey = 0
		}
		return counted(p, false)
	})
}

// MessagesBySeq returns a thread's messages with one of the seqs.
func (db *Database) MessagesBySeq(ctx context.Context, project string, threadKey int64, seqs []int64) (data.Page[data.Message], error) {
	return read(ctx, db, func() data.Page[data.Message] {
		list := db.messages[db.threadIn(project, threadKey)].sorted(func(m *data.Message) bool { return slices.Contains(seqs, m.Seq) },
			func(a, b *data.Message) int { return cmp.Or(cmp.Compare(b.Seq, a.Seq), cmp.Compare(a.Key, b.Key)) })
		return counted(page(list, func(*data.Message) bool { return false }, len(seqs), sizeOf), false)
	})
}

// newest returns the last messages by seq that fit into one read.
func newest(list []*data.Message, limit int) (p data.Page[data.Message]) {
	size := 0
	for _, m := range slices.Backward(list) {
		if p.More = len(p.Rows) == limit || len(p.Rows) > 0 && size >= data.ThreadBytes; p.More {
			break
		}
		p.Rows = append(p.Rows, copied(m))
		size += sizeOf(m)
	}
	slices.Reverse(p.Rows)
	return p
}

// Queued returns the run's queued messages in the order of their keys.
func (db *Database) Queued(ctx context.Context, runKey int64) ([]data.Message, error) {
	return read(ctx, db, func() []data.Message {
		return copies(db.ofRun(runKey, func(m *data.Message) bool { return m.State == data.MessageQueued }))
	})
}

// Messages lists the thread's consumed messages, by seq: see [data.Reader].
func (db *Database) Messages(ctx context.Context, threadKey, upToEvent int64, limit int) ([]data.Message, error) {
	return read(ctx, db, func() []data.Message {
		list := db.messages[threadKey].sorted(func(m *data.Message) bool {
			return m.State == data.MessageConsumed && m.EventID <= upTo(upToEvent)
		}, bySeq)
		return newest(list, limit).Rows
	})
}

// Instructions returns the thread's first messages that instruct models: see [data.Reader].
func (db *Database) Instructions(ctx context.Context, threadKey, upToEvent int64) ([]data.Message, error) {
	return read(ctx, db, func() []data.Message {
		list := db.messages[threadKey].sorted(func(m *data.Message) bool {
			return m.State == data.MessageConsumed && m.EventID <= upTo(upToEvent) && data.Instructs(&m.Message)
		}, bySeq)
		return copies(list[:min(len(list), 100)])
	})
}

// MessagesBefore lists the thread's messages that were consumed, by seq: see [data.Reader].
func (db *Database) MessagesBefore(ctx context.Context, project string, threadKey, before int64, hidden bool, limit int) (data.Page[data.Message], error) {
	return read(ctx, db, func() data.Page[data.Message] {
		list := db.messages[db.threadIn(project, threadKey)].sorted(func(m *data.Message) bool {
			taken := m.State == data.MessageConsumed || hidden && m.State == data.MessageHidden && m.EventID > 0
			return taken && m.Seq < upTo(before)
		}, bySeq)
		return newest(list, limit)
	})
}

// MessagesByID returns the thread's messages whose id or toolCallId is among ids, in the order of their keys.
func (db *Database) MessagesByID(ctx context.Context, threadKey int64, ids []string) ([]data.Message, error) {
	return read(ctx, db, func() []data.Message {
		return copies(db.messages[threadKey].sorted(func(m *data.Message) bool {
			return slices.Contains(ids, m.ID) || m.ToolCallID != "" && slices.Contains(ids, m.ToolCallID)
		}, inComing))
	})
}

// MessageHeads returns the heads of the thread's messages whose id or toolCallId is among ids.
func (db *Database) MessageHeads(ctx context.Context, threadKey int64, ids []string) ([]data.MessageHead, error) {
	msgs, err := db.MessagesByID(ctx, threadKey, ids)
	return heads(msgs), err
}

// ShownHeads returns the heads of the thread's newest consumed messages, by seq.
func (db *Database) ShownHeads(ctx context.Context, threadKey int64, limit int) ([]data.MessageHead, error) {
	msgs, err := db.Messages(ctx, threadKey, 0, limit)
	return heads(msgs), err
}

func heads(msgs []data.Message) []data.MessageHead {
	list := make([]data.MessageHead, len(msgs))
	for i := range msgs {
		m := &msgs[i]
		list[i] = data.MessageHead{
			RunKey: m.RunKey, Seq: m.Seq, State: m.State, ID: m.ID, ToolCallID: m.ToolCallID, Hash: data.ContentHash(&m.Message),
		}
	}
	return list
}

// Weight returns the size of a run's input: see [data.Reader].
func (db *Database) Weight(ctx context.Context, threadKey, runKey int64) (data.Weight, error) {
	return read(ctx, db, func() data.Weight {
		n, history, said := 0, 0, 0
		if run := db.runs[runKey]; run != nil {
			n += len(run.Input) + len(run.Definition)
			for _, m := range db.memos[runKey] {
				if m.Generation == run.Generation {
					n += len(m.Output)
				}
			}
		}
		if th := db.threads[threadKey]; th != nil {
			n += len(th.State)
		}
		asked := make(map[int64]bool) // by first event of the span
		began := int64(0)             // of its generation
		for _, span := range db.spans[threadKey] {
			if span.RunKey == runKey {
				asked[span.First] = true
				if run := db.runs[runKey]; run != nil && span.Generation == run.Generation {
					began = min(cmp.Or(began, span.First), span.First)
				}
			}
		}
		for _, m := range db.messages[threadKey] {
			switch {
			case m.State == data.MessageQueued && m.RunKey == runKey:
				n += sizeOf(m) + data.MessageBytes
			case m.State == data.MessageConsumed:
				history += sizeOf(m) + data.MessageBytes
				if m.RunKey == runKey && m.EventID > began && !asked[m.EventID] {
					said += sizeOf(m)
				}
			}
		}
		return data.Weight{Asked: int64(n + min(history, data.ThreadBytes)), Said: int64(said)}
	})
}

// LastSeq returns the highest seq of the thread's messages, 0 if it has none.
func (db *Database) LastSeq(ctx context.Context, threadKey int64) (int64, error) {
	return read(ctx, db, func() (last int64) {
		for _, m := range db.messages[threadKey] {
			last = max(last, m.Seq)
		}
		return last
	})
}

// dayOf returns the midnight of a time's UTC day.
func dayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// HistoryDay returns the latest UTC day before that of a time with messages of the thread.
func (db *Database) HistoryDay(ctx context.Context, project string, threadKey int64, before time.Time) (time.Time, error) {
	return one(ctx, db, func() *time.Time {
		days := db.messages[db.threadIn(project, threadKey)].sorted(func(m *data.Message) bool {
			return m.State == data.MessageConsumed && !m.Day.IsZero() && m.Day.Before(dayOf(before))
		}, func(a, b *data.Message) int { return b.Day.Compare(a.Day) })
		if len(days) == 0 {
			return nil
		}
		return &days[0].Day
	})
}

// History lists the thread's consumed messages of a UTC day with a seq above after, by seq.
func (db *Database) History(ctx context.Context, project string, threadKey int64, day time.Time, after int64, limit int) (data.Page[data.Message], error) {
	return read(ctx, db, func() data.Page[data.Message] {
		return counted(page(db.messages[db.threadIn(project, threadKey)].sorted(func(m *data.Message) bool {
			return m.State == data.MessageConsumed && m.Day.Equal(dayOf(day)) && !m.Day.IsZero()
		}, bySeq), func(m *data.Message) bool { return m.Seq <= after }, limit, sizeOf), false)
	})
}
