package exec

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/answer"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/observe"
	"github.com/batonrun/baton/runtime/plan"
	"github.com/batonrun/baton/runtime/prompts"
	"github.com/batonrun/baton/runtime/span"
	"github.com/batonrun/baton/runtime/tail"
)

// opening stages the beginning of a run's next span, or the whole span that ends a run which is not executed.
type opening struct {
	l   *Live
	it  *commit.Item
	th  *data.Thread
	row *data.Run

	answers int // that the span uses
}

// open stages the beginning of the span: RUN_STARTED with the new messages, and either the changes of the thread by a run
// that begins, or the effects of the answers to a run that continues.
func (o *opening) open(ctx context.Context, queued []data.Message) error {
	if o.row.Answered { // the worker is replayed with its input; later messages come with its next Next
		asked, err := o.asked(ctx)
		if err != nil {
			return err
		}
		spans, err := o.l.cfg.Store.Spans(ctx, o.row.Key)
		if err != nil {
			return err
		}
		if err := o.l.load(ctx, o.row, spans); err != nil {
			return err
		}
		o.l.Inbox.Store(int64(len(queued)))
		if err := o.l.out.span.Started(o.it, o.row, nil, answer.Entries(asked), observe.TraceID(o.l.Input.Trace)); err != nil {
			return err
		}
		return o.answered(asked)
	}
	o.l.out.span.Began = span.Began{State: o.th.State, UpTo: o.l.out.span.Row.First}
	var before int
	var kept []plan.Kept
	if o.row.Generation > 1 { // its steps are numbered after those of earlier generations
		steps, err := o.l.cfg.Store.ByProject().Steps(ctx, o.row.Project, o.row.Key, "", 0, 1)
		if err != nil {
			return err
		}
		before = steps.Total
	} else {
		kept = o.l.Input.Kept
	}
	o.it.Rows = append(o.it.Rows, o.l.out.nodes.Reset(o.row, before, kept)...)
	if edited := o.l.Input.Edited; edited != nil && o.row.Generation == 1 {
		if err := o.keepFormer(ctx, edited.ID); err != nil {
			return err
		}
		m := data.Message{ThreadKey: o.th.Key, RunKey: o.row.Key, ContextItemIDs: o.row.ContextItemIDs, Message: *edited}
		queued = slices.Concat([]data.Message{m}, queued)
	}
	first, rest := fitting(queued, o.l.cfg.FrameBytes)
	o.l.Inbox.Store(int64(len(rest))) // they come with its next Next, or the run is continued for them
	if err := o.l.out.span.Started(o.it, o.row, first, nil, observe.TraceID(o.l.Input.Trace)); err != nil {
		return err
	}
	if err := o.prepare(ctx); err != nil {
		return err
	}
	if o.l.Input.Resumed != nil && o.row.Generation == 1 {
		return o.resumeStep(o.l.Input.Resumed)
	}
	return o.enterAgent(first)
}

// keepFormer stores the content of a message that the run's edit replaces: prompts of earlier runs refer to it. It is removed with the message's run.
func (o *opening) keepFormer(ctx context.Context, id string) error {
	if o.l.out.prompts == nil {
		return nil
	}
	rows, err := o.l.cfg.Store.MessagesByID(ctx, o.th.Key, []string{id})
	if err != nil {
		return err
	}
	for i := range rows {
		if m := &rows[i]; m.ID == id && m.Seq > 0 {
			o.it.Rows = append(o.it.Rows, &data.PromptPiece{
				RunKey: cmp.Or(m.RunKey, o.row.Key), ID: prompts.FormerID(o.th.Key, m.Seq), Body: data.MustJSON(prompts.Said{Message: m.Message}),
			})
		}
	}
	return nil
}

// enterAgent begins the step of a run of one agent together with its span, so that both are one commit. It does so only if
// the run brings a user's message: otherwise the query comes from the thread, which is read later.
func (o *opening) enterAgent(first []data.Message) error {
	asked := slices.ContainsFunc(first, func(m data.Message) bool { return m.Role == agui.RoleUser })
	if o.row.Agent == "" || !asked {
		return nil
	}
	_, err := o.l.out.enter(o.it, o.l.out.nodes.Graph.Nodes[0], data.Shown(cmp.Or(data.Query(tail.Contents(first)), o.row.InputQuery)))
	return err
}

// prepare applies the run's changes of the thread: hidden messages and another state. RewindTo, HideFrom and State apply to
// the first generation only.
func (o *opening) prepare(ctx context.Context) error {
	hides, state, err := o.rolledBack(ctx, o.th.State)
	if err != nil {
		return err
	}
	if o.row.Generation == 1 {
		if o.l.Input.RewindTo != "" {
			heads, err := o.l.cfg.Store.MessageHeads(ctx, o.th.Key, []string{o.l.Input.RewindTo})
			if err != nil {
				return err
			}
			i := slices.IndexFunc(heads, func(m data.MessageHead) bool {
				return m.ID == o.l.Input.RewindTo && m.State == data.MessageConsumed
			})
			if i < 0 { // another run has hidden it while this one was queued
				return decide.ErrUnknownMessage
			}
			hides = append(hides, data.Hide{ThreadKey: o.th.Key, FromSeq: heads[i].Seq + 1})
		}
		if o.l.Input.HideFrom > 0 {
			hides = append(hides, data.Hide{ThreadKey: o.th.Key, FromSeq: o.l.Input.HideFrom})
		}
		if o.l.Input.State != nil {
			state = o.l.Input.State
		}
	}
	if len(hides) > 0 {
		if err := o.rewound(ctx, hides); err != nil {
			return err
		}
	}
	o.l.out.span.Began.State = state
	if len(hides) == 0 && string(state) == string(o.th.State) {
		return nil
	}
	return o.l.out.span.Stage(o.it, agui.StateSnapshot{Snapshot: state})
}

// rolledBack returns the messages to hide of the runs that this run has rolled back, and the state before the oldest of them.
func (o *opening) rolledBack(ctx context.Context, state json.RawMessage) ([]data.Hide, json.RawMessage, error) {
	if !o.row.RollBack {
		return nil, state, nil
	}
	var hides []data.Hide
	oldest := int64(math.MaxInt64)
	for _, r := range o.row.Replaces {
		spans, err := o.l.cfg.Store.Spans(ctx, r.RunKey)
		if err != nil {
			return nil, nil, err
		}
		i := slices.IndexFunc(spans, func(s data.Span) bool { return s.Generation == r.Generation })
		if i < 0 {
			continue
		}
		hides = append(hides, data.Hide{ThreadKey: o.row.ThreadKey, RunKey: r.RunKey, FromEvent: spans[i].First})
		if spans[i].First < oldest {
			oldest, state = spans[i].First, spans[i].State
		}
	}
	return hides, state, nil
}

// rewound stages the MESSAGES_SNAPSHOT with the remaining messages and those that this run brings. A message that stays
// keeps the results of its calls, wherever they are.
func (o *opening) rewound(ctx context.Context, hides []data.Hide) error {
	rows, err := o.l.cfg.Store.Messages(ctx, o.th.Key, 0, tail.LatestMessages)
	if err != nil {
		return err
	}
	hidden := func(m data.Message) bool {
		return slices.ContainsFunc(hides, func(h data.Hide) bool {
			return (h.RunKey == 0 || h.RunKey == m.RunKey) && (h.FromSeq == 0 || m.Seq >= h.FromSeq) && m.EventID >= h.FromEvent
		})
	}
	called := make(map[string]bool)
	for i := range rows {
		for _, c := range rows[i].ToolCalls {
			called[c.ID] = called[c.ID] || !hidden(rows[i])
		}
	}
	var before []data.Row // rows before the messages that the run brings, which stay
	for i := range hides {
		before = append(before, &hides[i])
	}
	left := make([]data.Message, 0, len(rows))
	for i := range rows {
		switch m := rows[i]; {
		case !hidden(m):
			left = append(left, m)
		case m.Role == agui.RoleTool && called[m.ToolCallID]:
			left = append(left, m)
			before = append(before, &m) // it is shown again
		}
	}
	for i := range left {
		if key := left[i].RunKey; key != 0 && key != o.l.run.Key && !slices.Contains(o.l.out.span.Began.Shows, key) {
			o.l.out.span.Began.Shows = append(o.l.out.span.Began.Shows, key)
		}
	}
	o.it.Rows = append(before, o.it.Rows...)
	msgs := append(tail.Contents(left), o.l.out.span.Fold.Messages()...) // messages that this run brings
	return o.l.out.span.Stage(o.it, agui.MessagesSnapshot{Messages: tail.Newest(msgs, o.l.cfg.FrameBytes)})
}

// asked reads the run's interrupts, before its records: the claim fails if the run gets another answer meanwhile.
func (o *opening) asked(ctx context.Context) ([]data.Interrupt, error) {
	asked, err := o.l.cfg.Store.Interrupts(ctx, o.row.Key)
	for i := range asked {
		switch in := &asked[i]; in.Status {
		case data.InterruptAnswered:
			o.answers++
		case data.InterruptOpen:
			o.l.out.journal.Add(new(*in))
		}
	}
	o.l.out.asked = true
	return asked, err
}

// answered opens the span of an answer: waiting steps continue, and a client's answers for its own tools become results.
func (o *opening) answered(all []data.Interrupt) error {
	var owed []string
	for _, m := range o.l.out.journal.Calls() {
		owed = append(owed, m.CallID)
	}
	for i := range all {
		if all[i].Frontend && all[i].Status == data.InterruptAnswered {
			owed = append(owed, all[i].ID)
		}
	}
	o.l.out.span.Ver.Owe(owed...)
	for _, st := range o.l.out.nodes.Resume(all, o.l.out.journal.Rests) {
		o.it.Rows = append(o.it.Rows, o.l.out.nodes.Rows(st)...)
		if err := o.l.out.span.Stage(o.it, agui.StepStarted{Base: agui.Base{Agent: o.l.out.nodes.Graph.Worker(st.NodeID)}, StepName: st.Name}); err != nil {
			return err
		}
	}
	for i := range all {
		if err := o.take(&all[i]); err != nil {
			return err
		}
	}
	return nil
}

// take resolves an answered interrupt. The memo of a frontend call holds its result.
func (o *opening) take(in *data.Interrupt) error {
	if in.Status != data.InterruptAnswered {
		return nil
	}
	in.Status = data.InterruptResolved
	o.it.Rows = append(o.it.Rows, in)
	if !in.Frontend {
		return nil
	}
	m := o.l.out.journal.Find(in.Step, in.Place)
	a, err := answer.Of(in)
	var out agui.ToolOutput
	if m == nil || err != nil || json.Unmarshal(m.Output, &out) != nil {
		return fmt.Errorf("frontend call %s has no record", in.ID)
	}
	return o.l.out.span.Stage(o.it, agui.ToolCallResult{
		MessageID: cmp.Or(a.MessageID, data.NewID()), ToolCallID: in.ID, Content: out.ResultSummary, Output: &out,
	})
}

// lastWords stages the span that ends a run which is not executed. A cancelled run takes its waiting messages; the waiting
// messages of a run that cannot be claimed are hidden. Open calls get their results.
func (o *opening) lastWords(ctx context.Context, spans []data.Span, queued []data.Message, e Ending) error {
	begun := o.row.Status == data.Waiting || o.row.Answered
	var asked []data.Interrupt
	if begun {
		var err error
		if asked, err = o.asked(ctx); err != nil {
			return err
		}
		if err := o.l.load(ctx, o.row, spans); err != nil {
			return err
		}
	}
	if e.status != data.Cancelled {
		o.it.Rows = append(o.it.Rows, &data.Hide{ThreadKey: o.l.out.span.Thread.Key, RunKey: o.row.Key, Queued: true})
		queued = nil
	}
	first, rest := fitting(queued, o.l.cfg.FrameBytes)
	if err := o.l.out.span.Started(o.it, o.row, first, answer.Entries(asked), observe.TraceID(o.l.Input.Trace)); err != nil {
		return err
	}
	if err := o.l.out.span.Take(o.it, rest); err != nil {
		return err
	}
	if begun {
		if err := o.failOwed(asked); err != nil {
			return err
		}
		o.it.Rows = append(o.it.Rows, o.l.out.nodes.Settle(e.status, e.err)...)
	}
	terminal, err := o.l.terminal(e)
	if err != nil {
		return err
	}
	return o.l.out.span.Stage(o.it, terminal)
}

// failOwed gives the open calls of a waiting run failed results, and the calls that a client has answered the client's results.
func (o *opening) failOwed(all []data.Interrupt) error {
	code := span.CodeCancelled
	for i := range all {
		switch in := &all[i]; in.Status {
		case data.InterruptOpen:
			if in.Frontend {
				code = span.CodeInterrupted
			}
		case data.InterruptAnswered:
			o.l.out.span.Ver.Owe(in.ID)
			if err := o.take(in); err != nil {
				return err
			}
		}
	}
	for _, m := range o.l.out.journal.Calls() {
		o.l.out.span.Ver.Owe(m.CallID)
		if err := o.l.out.span.Stage(o.it, span.FailedCall(m.CallID, m.Tool, code)); err != nil {
			return err
		}
	}
	return nil
}

// fitting splits messages: the first ones fit into one RUN_STARTED of so many bytes and are a worker's input. Only appended
// messages can leave a rest: the messages of a request fit.
func fitting(msgs []data.Message, event int) (first, rest []data.Message) {
	size := 0
	for i := range msgs {
		if size += len(msgs[i].Stored()); size > tail.MaxMessages(event) && i > 0 { // a single message may be as large as an event
			return msgs[:i], msgs[i:]
		}
	}
	return msgs, nil
}
