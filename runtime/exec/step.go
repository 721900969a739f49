package exec

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/answer"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/fold"
	"github.com/batonrun/baton/runtime/journal"
	"github.com/batonrun/baton/runtime/span"
)

// step is the host of one worker: for one execution of a node, or for a sub-agent inside one.
type step struct {
	l        *Live
	w        *span.Worker
	em       emitter // of the worker
	approves bool    // its tool needs an approval, whatever the tool says
	approver plugins.Approver
	message  func() (string, error) // the question of that approval, "" for the default
	messages []agui.Message         // of a worker that does not get those of the thread
}

var (
	_ plugins.Host          = (*step)(nil)
	_ host.ModelWatcher     = (*step)(nil)
	_ host.ModelLimiter     = (*step)(nil)
	_ host.Idler            = (*step)(nil)
	_ host.GuardCaller      = (*step)(nil)
	_ host.Rememberer       = (*step)(nil)
	_ host.ResultOpener     = (*step)(nil)
	_ host.AttachmentOpener = (*step)(nil)
)

func newStep(ctx context.Context, l *Live, number int, node, agent string) *step {
	w := &span.Worker{Ctx: ctx, Step: number, Agent: agent}
	return &step{l: l, w: w, em: emitter{out: &l.out, w: w, node: node}}
}

// NewID returns a new message id. The journal remembers it until the worker uses it, so that its owner is known.
func (s *step) NewID() string {
	id := data.NewID()
	s.l.out.mu.Lock()
	s.l.out.journal.Mint(id)
	s.l.out.mu.Unlock()
	return id
}

// Messages returns the newest messages of the thread; for a worker that another one called only its query.
func (s *step) Messages(ctx context.Context, limit int) ([]agui.Message, bool, error) {
	if s.messages != nil {
		return slices.Clone(s.messages), false, nil
	}
	return s.l.History.Messages(ctx, s.l.out.span.Thread.Key, s.l.out.span.Began.UpTo, limit)
}

// Emit queues one event. An event that ends something waits for the next event, for the record of its Do, or for the end of
// the step, and is stored with that. Otherwise a crash in between would keep the event and repeat the work it belongs to.
func (s *step) Emit(ev agui.Event) error { return s.em.emit(ev, nil) }

// PatchState merges an RFC 7396 patch into the thread's state.
func (s *step) PatchState(patch json.RawMessage) error {
	l := s.l
	l.out.source.Room()
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	if err := l.out.queue(&s.em, nil, nil); err != nil { // a held event may change the state
		return err
	}
	_, ev, err := fold.MergePatch(l.out.span.State(), patch)
	if err != nil {
		return &plugins.Error{Code: "bad_state", Message: err.Error()}
	}
	if ev == nil {
		return nil
	}
	return l.out.queue(&s.em, nil, nil, ev)
}

// Do returns the record of u. If there is none, it calls fn, and returns fn's result once it is recorded.
func (s *step) Do(ctx context.Context, u plugins.Use, fn func(context.Context) (plugins.Record, error)) (json.RawMessage, error) {
	m, err := s.em.memo(u)
	if err != nil {
		return nil, err
	}
	if m.Done {
		return m.Output, nil
	}
	if err := s.pass(ctx); err != nil {
		return nil, err
	}
	if err := s.do(ctx, m, fn); err != nil {
		return nil, err
	}
	return m.Output, s.pass(ctx)
}

// do calls the function of a Do and completes its memo with the result.
func (s *step) do(ctx context.Context, m *data.Memo, fn func(context.Context) (plugins.Record, error)) error {
	s.l.work(1)
	defer s.l.work(-1)
	if err := s.em.put(nil, nil); err != nil { // the held events have nothing to do with fn
		return err
	}
	d := &journal.Doing{Memo: *m}
	rec, err := s.inside(ctx, d, fn)
	if err != nil {
		return errors.Join(err, s.em.put(nil, nil))
	}
	m.Done, m.Output = true, rec.Output
	rows := append([]data.Row{m}, d.Over()...)
	for _, call := range rec.Calls {
		rows = append(rows, &data.Memo{
			RunKey: m.RunKey, Generation: m.Generation, Step: m.Step, Place: call.Place, CallID: call.ID, Tool: call.Name,
		})
	}
	return s.em.write(rows)
}

// inside calls fn as the function of a Do.
func (s *step) inside(ctx context.Context, d *journal.Doing, fn func(context.Context) (plugins.Record, error)) (plugins.Record, error) {
	d.Outer, _ = ctx.Value(doingKey{s.w}).(*journal.Doing)
	s.l.out.mu.Lock()
	s.em.dos = append(s.em.dos, d)
	s.l.out.mu.Unlock()
	defer func() {
		s.l.out.mu.Lock()
		s.em.dos = slices.DeleteFunc(s.em.dos, func(other *journal.Doing) bool { return other == d })
		s.l.out.mu.Unlock()
	}()
	return fn(context.WithValue(ctx, doingKey{s.w}, d))
}

type doingKey struct{ w *span.Worker }

// Ask records the question, or returns its answer.
func (s *step) Ask(_ context.Context, u plugins.Use, q agui.Interrupt) (plugins.Answer, error) {
	m, err := s.em.memo(u)
	if err != nil {
		return plugins.Answer{}, err
	}
	return s.question(m, "", q)
}

// question is Ask for any memo. tool is the tool of an approval, else empty. A recorded question keeps waiting.
func (s *step) question(m *data.Memo, tool string, q agui.Interrupt) (plugins.Answer, error) {
	var a plugins.Answer
	if m.Done {
		err := json.Unmarshal(m.Output, &a)
		return a, err
	}
	if m.CallID != "" {
		return a, plugins.ErrWaiting
	}
	q.ID, q.SubagentRunID = data.NewID(), s.w.Subagent
	if q.Reason == "" {
		q.Reason = "confirmation"
		if q.ResponseSchema != nil {
			q.Reason = "input_required"
		}
	}
	in := &data.Interrupt{
		ID: q.ID, RunKey: m.RunKey, Step: m.Step, Place: m.Place, Tool: tool, Status: data.InterruptOpen, CreatedAt: time.Now(),
	}
	if q.ExpiresAt != "" {
		at, err := time.Parse(time.RFC3339, q.ExpiresAt)
		if err != nil {
			return a, &plugins.Error{Code: "bad_interrupt", Message: "expiresAt must be an RFC 3339 time"}
		}
		in.ExpiresAt = &at
	}
	if in.Body = data.MustJSON(q); len(in.Body) > journal.MaxQuestion {
		return a, &plugins.Error{Code: "bad_interrupt", Message: "A question may hold 256 KiB"}
	}
	if err := answer.CheckQuestion(in.Body); err != nil {
		return a, &plugins.Error{Code: "bad_interrupt", Message: "A question's " + err.Error()}
	}
	s.l.out.mu.Lock()
	err := s.l.out.journal.MayAsk()
	s.l.out.mu.Unlock()
	if err != nil {
		return a, err
	}
	m.CallID = q.ID
	if err := s.em.put([]data.Row{m, in}, nil); err != nil {
		return a, err
	}
	return a, plugins.ErrWaiting
}

// Next takes the messages that were appended meanwhile. An empty result is recorded too, so that a replayed worker receives
// its messages at the same place.
func (s *step) Next(ctx context.Context, u plugins.Use) ([]agui.Message, error) {
	m, err := s.em.memo(u)
	if err != nil {
		return nil, err
	}
	if m.Done {
		var msgs []agui.Message
		err := json.Unmarshal(m.Output, &msgs)
		return msgs, err
	}
	if err := s.pass(ctx); err != nil {
		return nil, err
	}
	l := s.l
	if l.Inbox.Load() == 0 {
		m.Done, m.Output = true, json.RawMessage("[]")
		return nil, s.em.put([]data.Row{new(*m)}, nil)
	}
	return s.takeMessages(ctx, m)
}

func (s *step) takeMessages(ctx context.Context, m *data.Memo) ([]agui.Message, error) {
	l := s.l
	if err := s.em.put(nil, nil); err != nil {
		return nil, err
	}
	l.out.source.Room()
	queued, err := commit.RetryUnavailable(s.w.Ctx, func() ([]data.Message, error) { return l.cfg.Store.Queued(ctx, l.run.Key) })
	if err != nil {
		return nil, err
	}
	var msgs []agui.Message
	err = wait(func(done func(error)) error {
		l.out.mu.Lock()
		defer l.out.mu.Unlock()
		l.out.awaitTurn(&s.em)
		if err := l.out.span.Closed(s.w); err != nil {
			return err
		}
		// Messages of an earlier Next may still be on their way to the store.
		queued = slices.DeleteFunc(queued, func(q data.Message) bool { return l.out.span.Messages.Has(q.ID) })
		it := l.out.item()
		it.Done = append(it.Done, done)
		defer l.cfg.Commits.Add(it) // numbered events are written
		if err := l.out.span.Take(it, queued); err != nil {
			return err
		}
		msgs = make([]agui.Message, len(queued))
		for i := range queued {
			msgs[i] = queued[i].Message
			l.out.prompts.Learn(&queued[i])
		}
		l.Inbox.Add(-int64(len(queued)))
		m.Done, m.Output = true, data.MustJSON(msgs)
		l.out.record(it, new(*m))
		return nil
	})
	return msgs, err
}

// noteID returns the id of the piece with an agent's text about a thread under a key.
func noteID(thread int64, agent, key string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %q %q", thread, agent, key))
	return "n" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// Remember implements host.Rememberer.
func (s *step) Remember(about, key, text string) error {
	if s.w.Parent != nil {
		return nil
	}
	run := cmp.Or(s.l.History.RunOf(about), s.l.run.Key)
	return s.em.put([]data.Row{&data.PromptPiece{RunKey: run, ID: noteID(s.l.run.ThreadKey, s.w.Agent, key), Body: data.MustJSON(text)}}, nil)
}

// Recall implements host.Rememberer.
func (s *step) Recall(ctx context.Context, keys []string) (map[string]string, error) {
	texts := make(map[string]string)
	if s.w.Parent != nil {
		return texts, nil
	}
	for some := range slices.Chunk(keys, 100) { // one text each is small
		ids := make([]string, len(some))
		for i, key := range some {
			ids[i] = noteID(s.l.run.ThreadKey, s.w.Agent, key)
		}
		found, err := commit.RetryUnavailable(ctx, func() (data.Page[data.PromptPiece], error) {
			return s.l.cfg.Store.ByProject().PromptPieces(ctx, s.l.run.Project, s.l.run.ThreadKey, ids)
		})
		if err != nil {
			return nil, err
		}
		for i := range found.Rows {
			var text string
			if err := json.Unmarshal(found.Rows[i].Body, &text); err != nil {
				return nil, err
			}
			if at := slices.Index(ids, found.Rows[i].ID); at >= 0 {
				texts[some[at]] = text
			}
		}
	}
	return texts, nil
}
