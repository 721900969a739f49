package agui

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
)

// capabilities are AG-UI's AgentCapabilities. Fields that depend on the agent's own code, such as reasoning or reading images, are
// omitted, which means unknown.
type capabilities struct {
	Identity       identity       `json:"identity"`
	Transport      transport      `json:"transport"`
	Tools          tools          `json:"tools"`
	State          state          `json:"state"`
	MultiAgent     *multiAgent    `json:"multiAgent,omitempty"`
	Execution      *execution     `json:"execution,omitempty"`
	HumanInTheLoop humanInTheLoop `json:"humanInTheLoop"`
}

type identity struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Description string `json:"description,omitempty"`
}

type transport struct {
	Streaming         bool `json:"streaming"`
	WebSocket         bool `json:"websocket"`
	HTTPBinary        bool `json:"httpBinary"`
	PushNotifications bool `json:"pushNotifications"`
	Resumable         bool `json:"resumable"` // the events' ids are cursors of the thread's log
}

type tools struct {
	Items []tool `json:"items"` // every agent may call every tool
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

type state struct {
	Snapshots  bool `json:"snapshots"`
	Deltas     bool `json:"deltas"`
	Persistent bool `json:"persistentState"`
}

type multiAgent struct {
	Supported bool       `json:"supported"`
	Subagents []subagent `json:"subagents"`
}

type subagent struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

type execution struct {
	MaxExecutionTime int64 `json:"maxExecutionTime"` // ms
}

type humanInTheLoop struct {
	Supported  bool `json:"supported"`
	Approvals  bool `json:"approvals"` // a tool needs an approval
	Interrupts bool `json:"interrupts"`
	Edits      bool `json:"approveWithEdits"` // an approval may change the call's arguments
}

// capabilities answers GET capabilities.
func (t Transport) capabilities(c *fiber.Ctx, who runtime.Caller) error {
	p, err := find(t.Runtime, who, agentOf(c))
	if err != nil {
		return err
	}
	return c.JSON(capabilitiesOf(t.Runtime.Offered(who), p))
}

// capabilitiesOf returns the capabilities of an agent or a workflow among the offered plugins.
func capabilitiesOf(offered *host.Registry, p plugins.Plugin) capabilities {
	info := p.Info()
	caps := capabilities{
		Identity:       identity{info.Name, "baton", info.Description},
		Transport:      transport{Streaming: true, WebSocket: true, Resumable: true},
		Tools:          tools{[]tool{}},
		State:          state{true, true, true},
		HumanInTheLoop: humanInTheLoop{Supported: true, Interrupts: true, Edits: true},
	}
	for _, p := range offered.Tools() {
		info := p.Info()
		caps.Tools.Items = append(caps.Tools.Items, tool{info.Name, info.Description, info.Parameters})
		caps.HumanInTheLoop.Approvals = caps.HumanInTheLoop.Approvals || info.Approval
	}
	if info.Timeout > 0 {
		caps.Execution = &execution{info.Timeout.Milliseconds()}
	}
	if w, ok := p.(plugins.Workflow); ok {
		caps.MultiAgent = agentsOf(offered, w)
	}
	return caps
}

// agentsOf lists the agents of a workflow's nodes by name, nil without any.
func agentsOf(offered *host.Registry, w plugins.Workflow) *multiAgent {
	m := multiAgent{Supported: true}
	for _, n := range w.Nodes {
		if a, ok := offered.Agent(n.Agent); ok {
			m.Subagents = append(m.Subagents, subagent{n.Agent, a.Info().Description})
		}
	}
	if m.Subagents == nil {
		return nil
	}
	slices.SortFunc(m.Subagents, func(a, b subagent) int { return strings.Compare(a.Name, b.Name) })
	m.Subagents = slices.Compact(m.Subagents)
	return &m
}
