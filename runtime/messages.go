package runtime

import (
	"context"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/reconcile"
	"github.com/batonrun/baton/runtime/tail"
)

// reconcile compares the request's list of messages with the thread.
func (s *starting) reconcile(ctx context.Context) (err error) {
	req := reconcile.Request{
		Messages: s.req.Messages, ContextItemIDs: s.req.ContextItemIDs, RewindTo: s.req.RewindTo,
		Edits: s.req.Edits, MaxBytes: min(s.rt.cfg.MessageBytes, tail.MaxMessages(s.rt.cfg.FrameBytes)),
		Resumes: len(s.req.Resume) > 0, RollsBack: s.req.Multitask == RollbackRuns,
	}
	have := reconcile.Thread{New: s.first, LastSeq: s.th.LastSeq}
	if ids := req.Named(); !s.first && len(ids) > 0 {
		if have.ByID, err = s.rt.keyed.messageHeads(ctx, s.at, s.th.LastEventID, ids); err != nil {
			return err
		}
	}
	if s.plan, err = reconcile.Compare(&req, &have); s.plan.NeedsThread {
		if have.Open, have.Shown, err = s.rt.keyed.openAndShown(ctx, s.at); err != nil {
			return err
		}
		if makeWay := s.req.MakeWay; makeWay != nil && len(have.Open) > 0 {
			if s.req.MakeWay = nil; makeWay(ctx) {
				if err = s.readThread(ctx); err == nil {
					err = s.reconcile(ctx)
				}
				return err
			}
		}
		have.Read, have.Whole = true, len(have.Shown) < tail.LatestMessages
		s.plan, err = reconcile.Compare(&req, &have)
	}
	return err
}

// recall finds the calls that the request answered when it was first made, and the ids that its messages without an
// id got.
func (s *starting) recall(ctx context.Context) error {
	s.plan.Minted, s.answers = nil, make(map[string]bool)
	if slices.ContainsFunc(s.req.Messages, func(m agui.Message) bool { return m.Role == agui.RoleTool }) {
		all, err := s.rt.keyed.interrupts(ctx, s.started().granted)
		if err != nil {
			return err
		}
		for i := range all {
			s.answers[all[i].ID] = all[i].Frontend
		}
	}
	unnamed := make(map[int64]bool) // by hash
	for i := range s.req.Messages {
		if m := &s.req.Messages[i]; m.Role == agui.RoleUser && m.ID == "" {
			unnamed[data.ContentHash(m)] = true
		}
	}
	for after, more := int64(0), len(unnamed) > 0; more; {
		page, err := s.rt.store.RunMessages(ctx, s.c.project, s.out.Started.RunKey, after, tail.LatestMessages)
		if err != nil {
			return err
		}
		for i := range page.Rows {
			row := &page.Rows[i]
			if after = row.Key; unnamed[data.ContentHash(&row.Message)] {
				s.plan.Minted = append(s.plan.Minted, row.ID)
			}
		}
		more = page.More
	}
	return nil
}

// brought sets the messages, tool results and state that the client has itself.
func (s *starting) brought(out *decide.Started) {
	for i := range s.req.Messages {
		switch m := &s.req.Messages[i]; m.Role {
		case agui.RoleUser:
			out.Messages = append(out.Messages, m.ID)
		case agui.RoleTool: // clients also write a result for a call that they have approved
			if s.answers[m.ToolCallID] {
				out.Results = append(out.Results, m.ToolCallID)
			}
		}
	}
	out.Messages = append(out.Messages, s.plan.Minted...)
	out.State = s.req.State
	if s.out.Claimed {
		out.Before = s.th.State
	}
}
