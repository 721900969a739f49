package remote

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// conversation is what one step says to its remote, from one run of the remote to the next.
type conversation struct {
	thread   string         // the remote's
	messages []agui.Message // ours, with the remote's ids in their metadata
	state    json.RawMessage
	resume   []agui.ResumeEntry
	command  json.RawMessage // forwardedProps.command
}

// begin returns what a step has to say first.
func (a *Agent) begin(in *plugins.Input) *conversation {
	c := &conversation{
		// A remote knows nothing of our projects and users: two who call their threads alike must not meet in one of its.
		thread:   stableID("thread", in.Project, in.User, in.ThreadID, in.Node, a.cfg.Name, in.Subagent),
		messages: in.Messages,
		state:    in.State,
	}
	if in.Subagent != "" { // its messages are made anew each time it is called again
		c.messages = nil
	}
	if query := in.Query; query != "" && query != lastUser(c.messages) {
		id := stableID("query", in.Project, in.User, in.ThreadID, in.RunID, in.Node, in.Subagent)
		c.messages = append(slices.Clip(c.messages), agui.Message{ID: id, Role: agui.RoleUser, Content: query})
	}
	return c
}

// stableID is a UUID that stands for parts, the same each time.
func stableID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	id := uuid.UUID(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8, made by other rules
	return id.String()
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// lastUser is the text of the last message of a user, if no assistant has answered it.
func lastUser(list []agui.Message) string {
	for _, m := range slices.Backward(list) {
		switch m.Role {
		case agui.RoleUser:
			return m.Text()
		case agui.RoleAssistant:
			return ""
		default:
		}
	}
	return ""
}

// request is the body that asks the remote.
func (a *Agent) request(c *conversation, in *plugins.Input, runID string) ([]byte, error) {
	var body struct {
		ThreadID        string             `json:"threadId"`
		RunID           string             `json:"runId"`
		ProtocolVersion string             `json:"protocolVersion,omitempty"`
		State           json.RawMessage    `json:"state"`
		Messages        []json.RawMessage  `json:"messages"`
		Tools           []agui.Tool        `json:"tools"`
		Context         []agui.Context     `json:"context"`
		ForwardedProps  json.RawMessage    `json:"forwardedProps"`
		Resume          []agui.ResumeEntry `json:"resume,omitempty"`
	}
	body.ThreadID, body.RunID, body.Resume = c.thread, runID, c.resume
	if body.State = c.state; len(c.state) == 0 {
		body.State = json.RawMessage("{}")
	}
	projection := agui.AGUI1
	if a.cfg.Protocol == legacy {
		projection = agui.AGUI0
	} else {
		body.ProtocolVersion = a.cfg.Protocol
	}
	body.Messages = []json.RawMessage{}
	shown := agui.Project(agui.MessagesSnapshot{Messages: theirs(c.messages)}, projection).(agui.MessagesSnapshot)
	for i := range shown.Messages {
		m := &shown.Messages[i]
		if a.cfg.Protocol == legacy {
			m.Metadata = nil
		}
		body.Messages = append(body.Messages, m.AppendJSON(nil, projection))
	}
	body.Tools = make([]agui.Tool, len(in.Tools))
	for i, t := range in.Tools {
		if t.Parameters == nil {
			t.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		if a.cfg.Protocol == legacy {
			t.Metadata = nil
		}
		body.Tools[i] = t
	}
	body.Context = append([]agui.Context{}, in.Context...)
	var err error
	if body.ForwardedProps, err = forwarded(in.ForwardedProps, c.command); err != nil {
		return nil, err
	}
	return json.Marshal(&body)
}

// forwarded are a client's forwardedProps, without what it means for us, and with a command.
func forwarded(props, command json.RawMessage) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if json.Unmarshal(props, &members) != nil || members == nil {
		members = map[string]json.RawMessage{}
	}
	delete(members, "background") // a remote's run ends with our connection
	delete(members, "command")
	if command != nil {
		members["command"] = command
	}
	return json.Marshal(members)
}

// marks are the remote's ids, as our messages and calls keep them in their metadata.
type marks struct {
	ID     string `json:"remoteId,omitempty"`
	Parent string `json:"remoteParentId,omitempty"` // of a call: its message's
}

func marksOf(metadata json.RawMessage) (m marks) {
	_ = json.Unmarshal(metadata, &m)
	return m
}

// theirs returns messages as the remote knows them: those it has said under its ids. Reasoning and activities are not
// sent: many servers refuse messages of those roles.
func theirs(list []agui.Message) []agui.Message {
	out := make([]agui.Message, 0, len(list))
	calls, marked := map[string]string{}, map[string]bool{} // of calls: their ids there; whether their messages are the remote's
	used, results := map[string]bool{}, map[string]int{}    // results: where those of calls stand
	for _, m := range list {
		if m.Role == agui.RoleReasoning || m.Role == agui.RoleActivity {
			continue
		}
		own, metadata := m.ID, m.Metadata
		m.Extra, m.Metadata, m.SubagentRunID = nil, nil, ""
		id := marksOf(metadata).ID
		if m.Role == agui.RoleUser {
			id, m.Metadata = "", metadata
		}
		m.ToolCalls = append([]agui.ToolCall(nil), m.ToolCalls...)
		for i := range m.ToolCalls {
			c := &m.ToolCalls[i]
			mark := marksOf(c.Metadata)
			if id == "" {
				id = mark.Parent
			}
			if mark.ID != "" {
				calls[c.ID], c.ID = mark.ID, mark.ID
			}
			c.Metadata = nil
		}
		if n := len(m.ToolCalls); n > 0 { // one that was shown anew with its result is the same there
			m.ToolCalls = slices.DeleteFunc(m.ToolCalls, func(c agui.ToolCall) bool { _, known := marked[c.ID]; return known })
			if len(m.ToolCalls) == 0 && m.Content == "" {
				continue
			}
		}
		for _, c := range m.ToolCalls {
			marked[c.ID] = id != ""
		}
		if m.Role == agui.RoleTool {
			if there := calls[m.ToolCallID]; there != "" {
				m.ToolCallID = there
			} else if id == "" && marked[m.ToolCallID] {
				id = resultID(m.ToolCallID)
			}
			if at, known := results[m.ToolCallID]; known {
				m.ID = out[at].ID
				out[at] = m
				continue
			}
			results[m.ToolCallID] = len(out)
		}
		if id != "" && !used[id] {
			m.ID = id
		} else {
			m.ID = own
		}
		used[m.ID] = true
		out = append(out, m)
	}
	return out
}

// resultID is the id under which the remote is told the result of a client's tool. It is the same in later turns, when
// the result is part of the history, whatever id the client's message has.
func resultID(toolCallID string) string { return toolCallID + "-result" }
