package wire

import (
	"slices"
	"time"

	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
)

// Servers are the live servers of the database. The responding server is first.
type Servers struct {
	Servers  []Server `json:"servers"`
	Warnings []string `json:"warnings"` // Differences between servers that should be equal, as sentences.
}

// Server is a live server of the database, as seen a few seconds ago.
type Server struct {
	ID        string     `json:"id"`                             // The server's id.
	Name      *string    `json:"name"`                           // Name of its host. Null until the server has reported it.
	Address   *string    `json:"address"`                        // Where clients reach it.
	Version   *string    `json:"version"`                        // Baton's version.
	Schema    *int64     `json:"schema"`                         // Version of the database schema. Null if unknown.
	Role      string     `json:"role" enum:"all,gateway,worker"` // What the server does: everything, serve requests, or execute runs.
	Labels    []string   `json:"labels"`                         // The server's labels. It executes agents whose `run_on` is one of them.
	StartedAt *time.Time `json:"startedAt"`                      // Start time. Null, like `seenAt`, if only one server at a time uses the database.
	SeenAt    *time.Time `json:"seenAt"`                         // Time it was last seen.
	Draining  bool       `json:"draining"`                       // The server is stopping. It starts no runs and hands its own over to others.
	Running   int        `json:"running"`                        // Number of runs it executes.
	Free      int        `json:"free"`                           // Number of further runs it can execute.
	Queued    int        `json:"queued"`                         // Number of queued runs of all servers, as far as this server knows.
	Agents    []string   `json:"agents"`                         // Agents it offers in the project of the request.
	Workflows []string   `json:"workflows"`                      // Workflows it offers.
	Tools     []string   `json:"tools"`                          // Tools it offers, and tool servers, which stand for their tools.
}

// NewServers returns the description of servers.
func NewServers(list []runtime.Server) Servers {
	s := Servers{Servers: make([]Server, len(list)), Warnings: []string{}}
	for i := range list {
		s.Servers[i] = newServer(&list[i])
	}
	s.Warnings = append(s.Warnings, runtime.Differences(list)...)
	return s
}

func newServer(of *runtime.Server) Server {
	s := Server{
		ID: of.ID, Name: orNull(of.Name), Address: orNull(of.Addr), Version: orNull(of.Version), Role: "all", Labels: list(of.Labels),
		Draining: of.Draining, Running: of.Running, Free: of.Free, Queued: of.Queued,
		Agents:    namesOf(of.Offer, host.KindAgent),
		Workflows: namesOf(of.Offer, host.KindWorkflow),
		Tools:     namesOf(of.Offer, host.KindTool, host.KindToolbox),
	}
	if of.Role != "" {
		s.Role = of.Role
	}
	if of.Schema > 0 {
		s.Schema = &of.Schema
	}
	if !of.SeenAt.IsZero() {
		s.StartedAt, s.SeenAt = stampOrNull(&of.StartedAt), stampOrNull(&of.SeenAt)
	}
	return s
}

// namesOf returns the sorted names of the plugins of these kinds.
func namesOf(offer []host.Offered, kinds ...string) []string {
	names := []string{}
	for i := range offer {
		if slices.Contains(kinds, offer[i].Kind) {
			names = append(names, offer[i].Name)
		}
	}
	slices.Sort(names)
	return names
}
