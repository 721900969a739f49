package runtime

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/work"
)

// Servers of a cluster.
//
//nolint:revive // each is documented there
type (
	Identity = work.Identity
	Server   = work.Server
	Load     = work.Load

	ServerCounts = work.ServerCounts
)

// Roles of servers.
const (
	Gateway = work.Gateway
	Worker  = work.Worker
)

// Servers returns to an admin, or to everybody without accounts, the living servers of the database, as this one has seen them some seconds ago, and itself first. Their
// plugins are those of the caller's project.
func (rt *Runtime) Servers(c Caller) ([]Server, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if rt.cfg.Accounts && c.role < RoleAdmin {
		return nil, errServers
	}
	list := rt.work.Servers()
	list[0].Addr = cmp.Or(list[0].Addr, rt.cfg.Addr)
	for i := range list {
		list[i].Offer = list[i].Offer.For(c.project)
	}
	return list, nil
}

// CountServers returns how many servers live, as this one has seen them some seconds ago.
func (rt *Runtime) CountServers() ServerCounts { return rt.work.CountServers() }

var errServers = refuse(KindForbidden, "forbidden", "Your role may not see the servers")

// ServersOf reads the descriptions of servers.
func ServersOf(rows []data.Server) []Server {
	list := make([]Server, len(rows))
	for i := range rows {
		list[i] = work.ReadServer(&rows[i])
	}
	return list
}

// Differences says how servers differ that should be equal: one sentence each.
func Differences(servers []Server) (list []string) {
	differ := func(what string, of func(*Server) (string, bool)) {
		names := make(map[string][]string)
		for i := range servers {
			if v, ok := of(&servers[i]); ok {
				names[v] = append(names[v], nameOf(&servers[i]))
			}
		}
		if len(names) > 1 {
			var groups []string
			for _, group := range slices.SortedFunc(maps.Values(names), slices.Compare) {
				groups = append(groups, strings.Join(group, ", "))
			}
			list = append(list, fmt.Sprintf("%s between %s", what, strings.Join(groups, " and ")))
		}
	}
	differ("The versions of Baton differ", func(s *Server) (string, bool) { return s.Version, s.Version != "" })
	settings, workflows, agents, labels := make(map[string]bool), make(map[string]bool), make(map[string]bool), make(map[string]string)
	for i := range servers {
		s := &servers[i]
		for name := range s.Settings {
			settings[name] = true
		}
		for _, w := range s.Offer.Workflows {
			workflows[w.Name] = true
		}
		for _, a := range s.Offer.Agents {
			agents[a.Name] = true
			if a.RunOn != "" {
				labels[a.RunOn] = a.Name
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		differ("The settings "+name+" differ", func(s *Server) (string, bool) { v, ok := s.Settings[name]; return v, ok })
	}
	for _, name := range slices.Sorted(maps.Keys(workflows)) {
		differ("The definitions of the workflow "+name+" differ", func(s *Server) (string, bool) {
			for _, w := range s.Offer.Workflows {
				if w.Name == name {
					return fmt.Sprintf("%+v", w.Nodes), true
				}
			}
			return "", false
		})
	}
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		differ("The guards of the agent "+name+" differ", func(s *Server) (string, bool) {
			for _, a := range s.Offer.Agents {
				if a.Name == name {
					return a.Guarded, true
				}
			}
			return "", false
		})
	}
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		if !slices.ContainsFunc(servers, func(s Server) bool { return s.Role != Gateway && slices.Contains(s.Labels, label) }) {
			list = append(list, fmt.Sprintf("No server with the label %s executes the agent %s", label, labels[label]))
		}
	}
	return list
}

func nameOf(s *Server) string {
	switch {
	case s.Name != "" && s.Addr != "":
		return s.Name + " (" + s.Addr + ")"
	case s.Addr != "":
		return s.Addr
	}
	return s.ID
}
