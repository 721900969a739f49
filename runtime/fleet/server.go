package fleet

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/data"
)

// Identity describes an instance's process and settings.
type Identity struct {
	Name     string            `json:"name"`             // of its host
	Version  string            `json:"version"`          // of the program
	Schema   int64             `json:"schema"`           // of the database, 0 if it is not known
	Role     string            `json:"role,omitempty"`   // empty for everything, or one of the roles below
	Labels   []string          `json:"labels,omitempty"` // see plugins.Info.RunOn
	Settings map[string]string `json:"settings"`         // hashes of the settings that all servers should have in common, by their names
}

// Roles of instances of a cluster. A gateway executes no runs and starts no plugins; a worker serves no clients.
const (
	Gateway = "gateway"
	Worker  = "worker"
)

// Counts are numbers of living instances, at least one each.
type Counts struct {
	Clients int // that serve clients, and do not stop
	Runs    int // that execute runs
}

// Load is the present work of an instance.
type Load struct {
	Running int `json:"running"` // runs that it executes
	Free    int `json:"free"`    // runs that it can execute beside them
	Queued  int `json:"queued"`  // QUEUED runs that it knows of, of all servers

	Deaf bool `json:"deaf,omitempty"` // hints of other servers do not arrive
}

// Server is a living instance. Before its first description it has no Identity.
type Server struct {
	ID, Addr          string
	StartedAt, SeenAt time.Time // by the database's clock; zero without a cluster
	Draining          bool      // it stops, and takes no run
	Identity
	Load
	Offer []host.Offered // nil while it is not known: the instance then counts as one that may execute anything
}

// about is the part of a description that seldom changes.
type about struct {
	Identity
	Offer []host.Offered `json:"offer"`
}

// readServer reads the part that seldom changes. It is empty before the first description, and for a later version.
func readServer(row *data.Server) Server {
	var a about
	_ = json.Unmarshal(row.About, &a)
	return Server{Identity: a.Identity, Offer: a.Offer}
}

// in returns the server with the part that often changes.
func (s *Server) in(row *data.Server) Server {
	now := *s
	now.ID, now.Addr, now.StartedAt, now.SeenAt, now.Draining = row.Instance, row.Addr, row.StartedAt, row.SeenAt, row.Draining
	_ = json.Unmarshal(row.Load, &now.Load) // empty before the first Tell
	return now
}

// mayExecute reports whether another instance may execute these nodes for a project, as far as it has told.
func (s *Server) mayExecute(project string, nodes []plugins.Node) bool {
	if s.Role == Gateway || s.Draining {
		return false
	}
	return s.Offer == nil || !slices.ContainsFunc(nodes, func(n plugins.Node) bool {
		return !slices.ContainsFunc(s.Offer, func(o host.Offered) bool {
			return o.Executes(&n) && o.In(project) && (o.RunOn == "" || slices.Contains(s.Labels, o.RunOn))
		})
	})
}
