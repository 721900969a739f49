package work

import (
	"context"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
)

// Usage counts tokens, unless there is a record of u: the run's row is stored with the record that says so.
func (s *step) Usage(_ context.Context, u plugins.Use, t agui.TokenUsage) error {
	m, err := s.memo(u)
	if err != nil || m.Done {
		return err
	}
	m.Done, m.Output = true, mustJSON(t)
	l := s.l
	l.source.Room()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := s.closedBy(l); err != nil {
		return err
	}
	l.run.Usage = agui.AddUsage(slices.Clone(l.run.Usage), t) // rows that are queued keep theirs
	return l.queue(s, []model.Row{m, &model.RunResult{Key: l.run.Key, OutputSummary: l.run.OutputSummary, Usage: l.run.Usage}}, nil)
}
