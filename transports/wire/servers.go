package wire

import (
	"time"

	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
)

// Servers lists the living servers of the database, the one that answers first.
type Servers struct {
	Servers  []Server `json:"servers"`
	Warnings []string `json:"warnings"` // how they differ that should be equal
}

// Server is a living server, as it was seen some seconds ago.
type Server struct {
	ID        string     `json:"id"`
	Name      *string    `json:"name"`
	Address   *string    `json:"address"`
	Version   *string    `json:"version"` // null before it has told
	Schema    *int64     `json:"schema"`  // of the database
	Role      string     `json:"role"`
	Labels    []string   `json:"labels"`
	StartedAt *time.Time `json:"startedAt"` // null without a cluster, like seenAt
	SeenAt    *time.Time `json:"seenAt"`
	Draining  bool       `json:"draining"`
	Running   int        `json:"running"`
	Free      int        `json:"free"`
	Queued    int        `json:"queued"`
	Agents    []string   `json:"agents"`
	Workflows []string   `json:"workflows"`
	Tools     []string   `json:"tools"`
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
		Agents: namesOf(of.Offer.Agents), Workflows: []string{}, Tools: namesOf(of.Offer.Tools),
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
	for i := range of.Offer.Workflows {
		s.Workflows = append(s.Workflows, of.Offer.Workflows[i].Name)
	}
	return s
}

func namesOf(list []host.Described) []string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	return names
}
