package agui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/fanout"
	"github.com/batonrun/baton/transports/stream"
	"github.com/batonrun/baton/transports/wire"
)

// look answers TanStack AI's GET {agent}: with a thread's messages, or with the events of a run.
func (t Transport) look(c *fiber.Ctx, who runtime.Caller) error {
	if _, err := find(t.Runtime, who, agentOf(c)); err != nil {
		return err
	}
	thread, run := c.Query("threadId"), c.Query("runId")
	switch {
	case (thread == "") == (run == ""):
		return wire.Refuse("invalid_request", "Give threadId or runId, and not both")
	case thread != "":
		return t.hydrate(c, who, strings.Clone(thread))
	}
	return t.follow(c, who, strings.Clone(run))
}

// follow streams the events of a queued or running run behind an event id. It counts as joining the thread.
func (t Transport) follow(c *fiber.Ctx, who runtime.Caller, name string) error {
	after, err := offset(cmp.Or(wire.LastEventID(c), c.Query("offset", "-1")))
	if err != nil {
		return err
	}
	run, err := t.Runtime.Runs.Get(c.UserContext(), who, name)
	if err != nil {
		return err
	}
	th, err := t.Runtime.Threads.Get(c.UserContext(), who, run.ConversationID)
	if err != nil {
		return err
	}
	t.Streams.Ownership.Join(who, &th)
	cur, err := t.Runtime.Logs.JoinRun(c.UserContext(), &run, after) // whether there is one: the stream may never begin
	if err != nil {
		return err
	}
	cur.Close()
	client := wire.RunRequest{ProtocolVersion: strings.Clone(c.Query("protocolVersion"))}
	f := &follower{t, &run, after, client.Dialect()}
	return t.Streams.Serve(c, f.show)
}

// offset reads the id of the event after which a stream begins, -1 for the first event.
func offset(s string) (int64, error) {
	if s == "-1" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, wire.Refuse("invalid_cursor", "offset must be the id of an event, or -1")
	}
	return int64(n), nil
}

// follower is a client that follows a run.
type follower struct {
	t          Transport
	run        *runtime.Run // nil once it is being read
	after      int64
	projection agui.Projection
}

func (f *follower) show(ctx context.Context, w *stream.Writer) error {
	thread := f.run.ThreadID
	w.Describe("run", f.run.ID, "thread", thread)
	cur, err := f.t.Runtime.Logs.JoinRun(ctx, f.run, f.after)
	if err != nil {
		return f.t.Streams.Interrupt(w, thread, err, f.projection)
	}
	defer cur.Close()
	own := &follows{RunCursor: cur}
	if own.rebuilt, err = f.rebuilt(ctx); err != nil {
		return f.t.Streams.Interrupt(w, thread, err, f.projection)
	}
	if f.after == 0 && cur.Waits() { // TanStack AI's client gives up a run that begins with nothing for two seconds
		own.begun = true
		_, err = w.Write(fanout.Frame(nil, agui.RunStarted{Base: agui.Base{ThreadID: thread, RunID: f.run.ID}}, f.projection))
	}
	f.run = nil // an idle viewer need not hold it
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.t.Streams.Follow(ctx, w, &fanout.Feed{Cursor: own, Projection: f.projection})
	}
	if err == nil || errors.Is(err, stream.ErrGone) {
		return err
	}
	return f.t.Streams.Interrupt(w, thread, err, f.projection)
}

// rebuilt reports whether the client has a text or a tool call of the run, or all of the run.
func (f *follower) rebuilt(ctx context.Context) (bool, error) {
	if f.after == 0 {
		return false, nil
	}
	cur, err := f.t.Runtime.Logs.JoinRun(ctx, f.run, 0)
	if err != nil {
		return false, err
	}
	defer cur.Close()
	for cur.After() < f.after && !cur.Waits() {
		recs, err := cur.Next(ctx)
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		for _, r := range recs {
			if r.ID <= f.after && rebuilds(r) {
				return true, nil
			}
		}
	}
	return false, nil
}

func rebuilds(r *runtime.Record) bool {
	t := r.Event.Type()
	return t == agui.TypeTextMessageStart || t == agui.TypeToolCallStart
}

// follows is a run's cursor that omits reasoning before the run's first text or tool call. TanStack AI's client starts to
// rebuild a message there, and would lose one that begins with reasoning.
type follows struct {
	*runtime.RunCursor
	rebuilt bool
	begun   bool // the client got RUN_STARTED while the run was still queued
}

// Next returns the run's next events.
func (f *follows) Next(ctx context.Context) ([]*runtime.Record, error) {
	for {
		recs, err := f.RunCursor.Next(ctx)
		if err != nil || f.rebuilt {
			return recs, err
		}
		recs = slices.DeleteFunc(slices.Clone(recs), func(r *runtime.Record) bool {
			t := r.Event.Type()
			if f.begun && t == agui.TypeRunStarted {
				f.begun = false
				return true
			}
			f.rebuilt = f.rebuilt || rebuilds(r)
			return !f.rebuilt && strings.HasPrefix(string(t), "REASONING_")
		})
		if len(recs) > 0 {
			return recs, nil
		}
	}
}

// hydration is the answer to TanStack AI's load of a thread. The client follows activeRun by its id.
type hydration struct {
	Messages   []uiMessage     `json:"messages"`
	State      json.RawMessage `json:"state"`
	ActiveRun  *activeRun      `json:"activeRun"`
	Interrupts *pending        `json:"interrupts"`
	Page       page            `json:"page"`
}

type activeRun struct {
	RunID string `json:"runId"`
}

type pending struct {
	RunID   string           `json:"runId"`
	Pending []agui.Interrupt `json:"pending"`
}

type page struct {
	Truncated bool   `json:"truncated"`
	Cursor    string `json:"cursor,omitempty"` // before for the page before
}

// hydrate answers with a page of a thread's messages, its state, its active run and its open interrupts.
func (t Transport) hydrate(c *fiber.Ctx, who runtime.Caller, name string) error {
	f := runtime.MessageFilter{Before: strings.Clone(c.Query("before"))}
	if limit := c.Query("limit"); limit != "" {
		n, err := wire.Limit(limit)
		if err != nil {
			return err
		}
		f.Limit = n
	}
	if !runtime.ValidName(name) {
		return errNames
	}
	ctx := c.UserContext()
	end, err := t.Streams.Turn(ctx, who)
	if err != nil {
		return err
	}
	defer end()
	h := hydration{Messages: []uiMessage{}, State: json.RawMessage("{}")}
	th, err := t.Runtime.Threads.Get(ctx, who, name)
	if errors.Is(err, runtime.ErrThreadNotFound) {
		return c.JSON(h)
	}
	if err != nil {
		return err
	}
	snap, err := t.window(ctx, &th, f)
	if err != nil {
		return err
	}
	h.State = snap.State
	if len(snap.Messages) > 0 {
		first := snap.Messages[0].ID
		earlier, err := t.Runtime.Logs.Messages(ctx, th, runtime.MessageFilter{Before: first, Limit: 1})
		if err != nil {
			return err
		}
		if len(earlier.Messages) > 0 {
			h.Page = page{true, first}
		}
	}
	active, err := t.active(ctx, who, &th, &snap)
	if err != nil {
		return err
	}
	var asked []agui.Interrupt
	if run := snap.Run; run != nil && run.Status == runtime.Waiting && len(snap.Outcome.Interrupts) > 0 {
		asked = snap.Outcome.Interrupts
		h.Interrupts = &pending{snap.RunID, asked}
	}
	rows, err := t.Runtime.Logs.MessageRows(ctx, th, ids(snap.Messages))
	if err != nil {
		return err
	}
	var key int64
	if active != nil {
		h.ActiveRun, key = &activeRun{active.ID}, active.Key
		if active.Status == runtime.Queued && f.Before == "" {
			own, err := t.Runtime.Runs.Messages(ctx, who, active.ID, 0, wire.MaxLimit)
			if _, refused := errors.AsType[*runtime.Error](err); err != nil && !refused { // it is another's, or gone meanwhile
				return err
			}
			for i := range own.Rows { // a queued run's input is not in the log yet
				if m := &own.Rows[i]; m.State == runtime.MessageQueued && m.RunKey == active.Key {
					snap.Messages, rows = append(snap.Messages, m.Message), append(rows, *m)
				}
			}
		}
	}
	h.Messages = uiMessages(snap.Messages, rows, key, asked)
	if n := len(h.Messages); active != nil && n > 0 && h.Messages[n-1].Role == agui.RoleAssistant {
		// A client that follows a run replaces the last assistant message, so it gets an empty one.
		h.Messages = append(h.Messages, uiMessage{ID: active.ID, Role: agui.RoleAssistant, Parts: []uiPart{}})
	}
	return c.JSON(h)
}

// window reads a page of messages that does not begin with tool results, because results are shown with their calls.
func (t Transport) window(ctx context.Context, th *runtime.Thread, f runtime.MessageFilter) (runtime.Snapshot, error) {
	for {
		snap, err := t.Runtime.Logs.Messages(ctx, *th, f)
		if err != nil {
			return snap, err
		}
		got := len(snap.Messages)
		first := slices.IndexFunc(snap.Messages, func(m agui.Message) bool { return m.Role != agui.RoleTool })
		if first >= 0 || got < f.Limit || f.Limit == 0 {
			snap.Messages = snap.Messages[max(first, 0):]
			return snap, nil
		}
		f.Limit *= 2
	}
}

// active returns the thread's run with an open span, else its next queued one. It returns nil if there is none or a run asks.
func (t Transport) active(ctx context.Context, who runtime.Caller, th *runtime.Thread, snap *runtime.Snapshot) (*runtime.Run, error) {
	if snap.Run != nil && snap.Run.Status == runtime.Waiting && !snap.Run.Parked() {
		return nil, nil
	}
	runs, err := t.Runtime.Runs.List(ctx, who, runtime.RunFilter{
		ThreadKey: th.Key, Statuses: []runtime.Status{runtime.Queued, runtime.Running, runtime.Waiting}, Limit: wire.MaxLimit,
	})
	if err != nil || len(runs.Rows) == 0 {
		return nil, err
	}
	run := &runs.Rows[len(runs.Rows)-1]
	if i := slices.IndexFunc(runs.Rows, func(r runtime.Run) bool { return r.Owner != "" }); i >= 0 {
		run = &runs.Rows[i]
	}
	return run, nil
}

func ids(msgs []agui.Message) []string {
	list := make([]string, len(msgs))
	for i := range msgs {
		list[i] = msgs[i].ID
	}
	return list
}

// uiMessage is a message in TanStack AI's form.
type uiMessage struct {
	ID        string          `json:"id"`
	Role      agui.Role       `json:"role"`
	Parts     []uiPart        `json:"parts"`
	CreatedAt *time.Time      `json:"createdAt,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
}

// uiPart is a part of a message. Its type defines its members.
type uiPart struct {
	Type       string          `json:"type"`
	Content    *string         `json:"content,omitempty"`
	Source     *agui.Source    `json:"source,omitempty"`
	ID         string          `json:"id,omitempty"`
	Name       string          `json:"name,omitempty"`
	Arguments  *string         `json:"arguments,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
	Approval   *uiApproval     `json:"approval,omitempty"`
	ToolCallID string          `json:"toolCallId,omitempty"`
	State      string          `json:"state,omitempty"`
	Error      string          `json:"error,omitempty"`
}

type uiApproval struct {
	ID            string `json:"id"`
	NeedsApproval bool   `json:"needsApproval"`
}

// uiMessages converts messages to TanStack AI's form: reasoning becomes a part of the following answer, and a result a part beside
// its call. It leaves out the active run's messages, because the client follows that run from its first event.
func uiMessages(msgs []agui.Message, rows []runtime.Message, active int64, asked []agui.Interrupt) []uiMessage {
	stored := make(map[string]*runtime.Message, len(rows))
	for i := range rows {
		stored[rows[i].ID] = &rows[i]
	}
	list := []uiMessage{}
	owner := make(map[string]int) // of a call, in list
	var thought []uiPart
	for i := range msgs {
		m := &msgs[i]
		row := stored[m.ID]
		if active != 0 && m.Role != agui.RoleUser && (row == nil || row.RunKey == active) {
			continue
		}
		switch m.Role {
		case agui.RoleActivity:
			continue
		case agui.RoleReasoning:
			thought = append(thought, uiPart{Type: "thinking", Content: &m.Content})
			if i+1 < len(msgs) && (msgs[i+1].Role == agui.RoleReasoning || msgs[i+1].Role == agui.RoleAssistant) {
				continue
			}
		case agui.RoleTool:
			if at, ok := owner[m.ToolCallID]; ok {
				list[at].result(m)
			}
			continue
		}
		ui := uiMessage{ID: m.ID, Role: m.Role, Parts: append([]uiPart{}, thought...), Metadata: metadata(m)}
		if thought = nil; row != nil {
			ui.CreatedAt = &row.CreatedAt
		}
		switch m.Role {
		case agui.RoleReasoning:
			ui.Role = agui.RoleAssistant
		case agui.RoleDeveloper:
			ui.Role = agui.RoleSystem
			fallthrough
		default:
			ui.say(m)
		}
		for j := range m.ToolCalls {
			owner[m.ToolCalls[j].ID] = len(list)
			ui.call(&m.ToolCalls[j], asked)
		}
		list = append(list, ui)
	}
	return list
}

// say adds the content of m.
func (u *uiMessage) say(m *agui.Message) {
	if len(m.Parts) == 0 {
		if m.Content != "" {
			u.Parts = append(u.Parts, uiPart{Type: "text", Content: &m.Content})
		}
		return
	}
	for _, p := range m.ContentParts() {
		part := uiPart{Type: p.Type, Source: p.Source}
		if p.Source == nil {
			part.Content = &p.Text
		}
		u.Parts = append(u.Parts, part)
	}
}

// call adds a tool call, with its open approval if there is one.
func (u *uiMessage) call(call *agui.ToolCall, asked []agui.Interrupt) {
	part := uiPart{Type: "tool-call", ID: call.ID, Name: call.Name, Arguments: &call.Arguments, State: "input-complete"}
	if json.Valid([]byte(call.Arguments)) {
		part.Input = json.RawMessage(call.Arguments)
	}
	for i := range asked {
		if asked[i].ToolCallID == call.ID {
			part.State, part.Approval = "approval-requested", &uiApproval{asked[i].ID, true}
		}
	}
	u.Parts = append(u.Parts, part)
}

// result adds a result beside its call.
func (u *uiMessage) result(m *agui.Message) {
	part := uiPart{Type: "tool-result", ToolCallID: m.ToolCallID, Content: &m.Content, State: "complete", Error: m.Error}
	output := json.RawMessage(m.Content)
	if !json.Valid(output) {
		output, _ = json.Marshal(m.Content)
	}
	if m.Error != "" {
		part.State = "error"
	}
	for i := range u.Parts {
		if call := &u.Parts[i]; call.ID == m.ToolCallID {
			call.State, call.Output = "complete", output
		}
	}
	u.Parts = append(u.Parts, part)
}

// metadata returns a message's metadata as AG-UI clients get it.
func metadata(m *agui.Message) json.RawMessage {
	var told struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	_ = json.Unmarshal(m.AppendJSON(nil, agui.AGUI0), &told) // the content stays empty if it cannot be read
	return told.Metadata
}
