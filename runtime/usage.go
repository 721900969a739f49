package runtime

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
)

// spent are tokens that were reported and wait to be counted: emit takes it for a row, adds it to the run's usage and
// writes the run's row in its place, so that both are stored with the record that says so.
type spent struct {
	model.RunResult       // makes it a row; empty
	s               *step // whose Do it belongs to

	mu    sync.Mutex // guards the fields below
	list  []agui.TokenUsage
	taken bool // the Do is over
}

// add notes tokens, unless the Do is over.
func (u *spent) add(t agui.TokenUsage) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.taken {
		u.list = append(u.list, t)
	}
	return !u.taken
}

// rows is u for emit, nothing when nothing was spent.
func (u *spent) rows() []Row {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.list) == 0 {
		return nil
	}
	return []Row{u}
}

// take returns what was noted, and ends it.
func (u *spent) take() []agui.TokenUsage {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.taken = true
	return u.list
}

type spentKey struct{}

// spending returns a context in which what the step reports waits for the record of a Do.
func (s *step) spending(ctx context.Context) (context.Context, *spent) {
	u := &spent{s: s}
	return context.WithValue(ctx, spentKey{}, u), u
}

// Usage counts tokens: with the record of the Do that ctx belongs to, or as a use of its own.
func (s *step) Usage(ctx context.Context, u agui.TokenUsage) error {
	if do, ok := ctx.Value(spentKey{}).(*spent); ok && do.s == s && do.add(u) {
		return nil
	}
	s.l.usage.Lock() // several may report at once
	defer s.l.usage.Unlock()
	m, release, err := s.use("usage")
	if err != nil {
		return err
	}
	defer release()
	if m.Done {
		return nil
	}
	m.Done, m.Output = true, mustJSON(u)
	return s.l.emit(s, []Row{s.keep(m), &spent{list: []agui.TokenUsage{u}}}, nil, s.takeHeld()...)
}

// recordSpent is record for a Do in which tokens were spent.
func (s *step) recordSpent(m *Memo, output json.RawMessage, u *spent, evs ...agui.Event) error {
	m.Done, m.Output = true, output
	rows := append(u.rows(), s.keep(m))
	return s.l.wait(func(done func(error)) error { return s.l.emit(s, rows, done, evs...) })
}

// account replaces what rows hold of tokens by the run's row. l.mu is held.
func (l *live) account(rows []Row) []Row {
	at := slices.IndexFunc(rows, func(r Row) bool { _, ok := r.(*spent); return ok })
	if at < 0 {
		return rows
	}
	list := rows[at].(*spent).take()
	rows = slices.Delete(rows, at, at+1)
	l.run.Usage = slices.Clone(l.run.Usage) // rows that are queued keep theirs
	for _, t := range list {
		l.run.Usage = agui.AddUsage(l.run.Usage, t)
	}
	return append(rows, &model.RunResult{Key: l.run.Key, OutputSummary: l.run.OutputSummary, Usage: l.run.Usage})
}
