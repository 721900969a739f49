package agui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/wire"
)

// errNoResource is the answer for an unknown path below the runtime's.
var errNoResource = fiber.NewError(fiber.StatusNotFound)

// kitResource is a request for a CopilotKit resource: the threads, one of them, or a part of one.
type kitResource struct {
	method, thread, part string // thread is as the path has it, empty for all
	query                string
	body                 []byte
}

// resource answers a request for a resource, which has come to its path or to the single endpoint.
func (k copilotKit) resource(c *fiber.Ctx, who runtime.Caller, r *kitResource) error {
	if r.method == fiber.MethodGet {
		c.SetUserContext(transports.Reading(c))
		end, err := k.Streams.Turn(c.UserContext(), who)
		if err != nil {
			return err
		}
		defer end()
	}
	name := wire.Unescape(r.thread)
	switch asked := r.method + " " + r.part; {
	case name == "" && asked == "GET ":
		args, err := url.ParseQuery(r.query)
		if err != nil {
			return wire.Refuse("invalid_request", "The query is not valid")
		}
		return k.threads(c, who, args)
	case name == "":
		return errNoResource
	case asked == "PATCH ":
		patch, err := wire.DecodeThreadPatch(r.body, "name")
		if err != nil {
			return err
		}
		patch.Metadata = nil // it is not of this protocol
		return k.change(c, who, name, patch)
	case asked == "POST archive":
		return k.change(c, who, name, runtime.ThreadPatch{Archived: new(true)})
	case asked == "DELETE ":
		if err := k.Runtime.DeleteThread(c.UserContext(), who, name); err != nil {
			return err
		}
		return c.SendStatus(fiber.StatusNoContent)
	case r.method == fiber.MethodGet:
		return k.part(c, who, name, r.part)
	}
	return errNoResource
}

// change answers with the thread as it is listed from now on.
func (k copilotKit) change(c *fiber.Ctx, who runtime.Caller, name string, p runtime.ThreadPatch) error {
	th, err := k.Runtime.UpdateThread(c.UserContext(), who, name, p)
	if err != nil {
		return err
	}
	return c.JSON(newKitThread(&th))
}

// part answers with a part of a thread.
func (k copilotKit) part(c *fiber.Ctx, who runtime.Caller, name, part string) error {
	show := map[string]func(context.Context, *runtime.Thread) (any, error){
		"messages": k.messages, "events": k.events, "state": k.state,
	}[part]
	if show == nil {
		return errNoResource
	}
	th, err := k.Runtime.Threads.Get(c.UserContext(), who, name)
	if err != nil {
		return err
	}
	answer, err := show(c.UserContext(), &th)
	if err != nil {
		return err
	}
	return c.JSON(fiber.Map{part: answer})
}

// kitThread is a thread as the list shows it.
type kitThread struct {
	ID             string  `json:"id"`
	Name           *string `json:"name"`
	AgentID        string  `json:"agentId"` // of its latest run
	OrganizationID string  `json:"organizationId"`
	CreatedByID    string  `json:"createdById"`
	Archived       bool    `json:"archived"`
	CreatedAt      string  `json:"createdAt"`
	UpdatedAt      string  `json:"updatedAt"`
}

// kitTime has one width: front ends sort threads by the text of their times.
const kitTime = "2006-01-02T15:04:05.000Z"

func newKitThread(th *runtime.ListedThread) kitThread {
	t := kitThread{
		ID: th.ID, AgentID: th.Agent, OrganizationID: th.Project, CreatedByID: th.User, Archived: th.Archived,
		CreatedAt: th.CreatedAt.UTC().Format(kitTime), UpdatedAt: th.UpdatedAt.UTC().Format(kitTime),
	}
	if th.Title != "" {
		t.Name = &th.Title
	}
	return t
}

// maxPages limits the pages of threads that one request searches for those of an agent.
const maxPages = 20

// threads lists the caller's threads, the latest activity first: all, or those whose latest run is of one agent; archived ones only
// on request. A page may be short if many other threads are between them.
func (k copilotKit) threads(c *fiber.Ctx, who runtime.Caller, args url.Values) error {
	limit, err := wire.Limit(args.Get("limit"))
	if err != nil {
		return err
	}
	agent, archived := args.Get("agentId"), args.Get("includeArchived") == "true"
	list, err := wire.NewList(c.UserContext(), k.Runtime.Secrets, "CopilotKit's threads", who, []any{agent, archived})
	if err != nil {
		return err
	}
	f := runtime.ThreadFilter{Limit: limit}
	if err = wire.ThreadsAfter(list, args.Get("cursor"), &f); err != nil {
		return err
	}
	threads, last := []kitThread{}, false
	for n := 0; n < maxPages && len(threads) < limit && !last; n++ {
		page, err := k.Runtime.Threads.List(c.UserContext(), who, f)
		if err != nil {
			return err
		}
		rows := page.Rows
		last = !page.More
		for i := range rows {
			if len(threads) == limit {
				last = false
				break
			}
			f.BeforeTime, f.BeforeKey = rows[i].UpdatedAt, rows[i].Key
			if (agent == "" || rows[i].Agent == agent) && (archived || !rows[i].Archived) {
				threads = append(threads, newKitThread(&rows[i]))
			}
		}
	}
	next := (*string)(nil)
	if !last {
		cursor := wire.ThreadsCursor(list, f.BeforeTime, f.BeforeKey)
		next = &cursor
	}
	return c.JSON(fiber.Map{"threads": threads, "nextCursor": next})
}

// kitMessage is a message as CopilotKit's inspector shows it.
type kitMessage struct {
	ID         string          `json:"id"`
	Role       agui.Role       `json:"role"`
	Content    json.RawMessage `json:"content,omitempty"`
	ToolCalls  []kitCall       `json:"toolCalls,omitempty"`
	ToolCallID string          `json:"toolCallId,omitempty"`
}

type kitCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Args string `json:"args"` // JSON text, {} while the call is open
}

func (k copilotKit) messages(ctx context.Context, th *runtime.Thread) (any, error) {
	snap, err := k.Runtime.Logs.Snapshot(ctx, *th)
	list := make([]kitMessage, len(snap.Messages))
	for i := range snap.Messages {
		m := &snap.Messages[i]
		list[i] = kitMessage{ID: m.ID, Role: m.Role, Content: m.Parts, ToolCallID: m.ToolCallID}
		if m.Parts == nil {
			list[i].Content, _ = json.Marshal(m.Content)
		}
		for _, tc := range m.ToolCalls {
			list[i].ToolCalls = append(list[i].ToolCalls, kitCall{tc.ID, tc.Name, cmp.Or(tc.Arguments, "{}")})
		}
	}
	return list, err
}

func (k copilotKit) state(ctx context.Context, th *runtime.Thread) (any, error) {
	snap, err := k.Runtime.Logs.Snapshot(ctx, *th)
	return snap.State, err
}

// The limits of the latest events that a thread shows.
const (
	maxInspected      = 1000
	maxInspectedBytes = 8 << 20
)

func (k copilotKit) events(ctx context.Context, th *runtime.Thread) (any, error) {
	end, err := k.Runtime.Logs.Read(ctx, *th, runtime.Latest, false)
	if err != nil {
		return nil, err
	}
	defer end.Close()
	cur, err := k.Runtime.Logs.Read(ctx, *th, max(end.After()-maxInspected, 0), false)
	if err != nil {
		return nil, err
	}
	defer cur.Close()
	list, size := []json.RawMessage{}, 0
	for cur.After() < end.After() {
		recs, err := cur.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil, runtime.ErrThreadNotFound // it was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		for _, rec := range recs {
			if data := rec.JSON(agui.AGUI0); data != nil {
				list = append(list, data)
				size += len(data)
			}
		}
		for size > maxInspectedBytes {
			size -= len(list[0])
			list = list[1:]
		}
	}
	return list, nil
}
