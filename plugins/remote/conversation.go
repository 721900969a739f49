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

// conversation is the input of one step for its remote, from one run of the remote to the next.
type conversation struct {
	thread   string         // the remote's
	messages []agui.Message // ours, with the remote's ids in their metadata
	state    json.RawMessage
	left     []left
	resume   []agui.ResumeEntry
	parent   string          // the run whose questions resume answers
	command  json.RawMessage // forwardedProps.command
}

// left is a call that stays open from one run of the remote to the next.
type left struct {
	ID     string           `json:"id"`               // ours
	Theirs string           `json:"theirs"`           // as in the conversation's messages
	Answer *agui.ToolOutput `json:"answer,omitempty"` // a person's: the result, unless the remote shows another
}

// begin returns the first input of a step.
func (a *Agent) begin(in *plugins.Input, messages []agui.Message) *conversation {
	c := &conversation{
		// The remote does not know our projects and users: equal thread names of different users must not collide.
		thread:   stableID("thread", in.Project, in.User, in.ThreadID, in.Node, a.cfg.Name, in.Subagent),
		messages: messages,
		state:    in.State,
	}
	if in.Subagent != "" { // its message ids differ on each replay
		c.messages = nil
	}
	if query := in.Query; query != "" && query != lastUser(c.messages) {
		id := stableID("query", in.Project, in.User, in.ThreadID, in.RunID, in.Node, in.Subagent)
		c.messages = append(slices.Clip(c.messages), agui.Message{ID: id, Role: agui.RoleUser, Content: query})
	}
	return c
}

// extended returns messages with more behind them. The result of a call in messages follows that call.
func extended(messages, more []agui.Message) []agui.Message {
	messages = slices.Clone(messages)
	for _, m := range more {
		at := slices.IndexFunc(messages, func(old agui.Message) bool {
			return m.Role == agui.RoleTool && slices.ContainsFunc(old.ToolCalls, func(c agui.ToolCall) bool { return c.ID == m.ToolCallID })
		})
		for at++; at > 0 && at < len(messages) && messages[at].Role == agui.RoleTool; {
			at++
		}
		if at == 0 {
			at = len(messages)
		}
		messages = slices.Insert(messages, at, m)
	}
	return messages
}

// stableID returns a UUID determined by parts.
func stableID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	id := uuid.UUID(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8, a custom format
	return id.String()
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// lastUser returns the text of the last user message if no assistant message follows it.
func lastUser(list []agui.Message) string {
	for _, m := range slices.Backward(list) {
		if m.Role == agui.RoleUser {
			return m.Text()
		}
		if m.Role == agui.RoleAssistant {
			break
		}
	}
	return ""
}

// request returns the body of a request to the remote.
func (a *Agent) request(c *conversation, in *plugins.Input, runID string) ([]byte, error) {
	var body struct {
		ThreadID        string             `json:"threadId"`
		RunID           string             `json:"runId"`
		ParentRunID     string             `json:"parentRunId,omitempty"`
		ProtocolVersion string             `json:"protocolVersion,omitempty"`
		State           json.RawMessage    `json:"state"`
		Messages        []json.RawMessage  `json:"messages"`
		Tools           []agui.Tool        `json:"tools"`
		Context         []agui.Context     `json:"context"`
		ForwardedProps  json.RawMessage    `json:"forwardedProps"`
		Resume          []agui.ResumeEntry `json:"resume,omitempty"`
	}
	body.ThreadID, body.RunID, body.ParentRunID, body.Resume = c.thread, runID, c.parent, c.resume
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
	messages, invented := theirs(c.messages, a.cfg.Name)
	shown := agui.Project(agui.MessagesSnapshot{Messages: without(messages, invented)}, projection).(agui.MessagesSnapshot)
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

// forwarded returns a client's forwardedProps without Baton's own members, with a command.
func forwarded(props, command json.RawMessage) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if json.Unmarshal(props, &members) != nil || members == nil {
		members = map[string]json.RawMessage{}
	}
	delete(members, "background") // the remote's run ends with our connection
	delete(members, "command")
	if command != nil {
		members["command"] = command
	}
	return json.Marshal(members)
}

// marks are the remote's ids in the metadata of our messages and calls.
type marks struct {
	ID       string `json:"remoteId,omitempty"`
	Parent   string `json:"remoteParentId,omitempty"` // of a call: its message's
	Invented bool   `json:"remoteInvented,omitempty"` // of a call that only we know, for a result without one
	Agent    string `json:"agent,omitempty"`          // the author
}

func marksOf(metadata json.RawMessage) (m marks) {
	_ = json.Unmarshal(metadata, &m)
	return m
}

// theirs returns messages in the form for the remote, whose agent here is name: its own ones under its ids, the others without
// their opaque values, which are for another provider. It omits reasoning and activities, because many servers refuse these roles.
// invented are the calls that the remote does not know.
func theirs(list []agui.Message, name string) (out []agui.Message, invented map[string]bool) {
	invented = map[string]bool{}
	calls, marked := map[string]string{}, map[string]bool{} // by call id: their ids there; whether their messages are the remote's
	used, results := map[string]bool{}, map[string]int{}    // results: positions of calls' results
	for _, m := range list {
		if m.Role == agui.RoleReasoning || m.Role == agui.RoleActivity {
			continue
		}
		own, metadata := m.ID, m.Metadata
		m.Extra, m.Metadata, m.SubagentRunID = nil, nil, ""
		by := marksOf(metadata)
		id := by.ID
		if by.Agent != name {
			m.EncryptedValue = ""
		}
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
			if mark.Agent != name {
				c.EncryptedValue = ""
			}
			if mark.Invented && (mark.Agent == name || mark.Agent == "") { // an event of this step has no author yet
				invented[c.ID] = true
			}
			c.Arguments, c.Metadata = string(argumentsOf(c.Arguments)), nil
		}
		if n := len(m.ToolCalls); n > 0 { // a call shown again with its result is one call there
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
	return out, invented
}

// without returns messages without calls and their results.
func without(list []agui.Message, calls map[string]bool) []agui.Message {
	return slices.DeleteFunc(list, func(m agui.Message) bool {
		return calls[m.ToolCallID] || m.Content == "" && len(m.ToolCalls) > 0 && !slices.ContainsFunc(m.ToolCalls, func(c agui.ToolCall) bool { return !calls[c.ID] })
	})
}

// resultID is the remote's message id for the result of a client's tool. It is the same in later turns, when the result
// is in the history under the client's id.
func resultID(toolCallID string) string { return toolCallID + "-result" }
