package runtime

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/fleet"
)

// Servers of a cluster.
//
//nolint:revive // each is documented there
type (
	Identity = fleet.Identity
	Server   = fleet.Server
	Load     = fleet.Load
)

// Roles of servers.
const (
	Gateway = fleet.Gateway
	Worker  = fleet.Worker
)

// Servers returns to an admin, or to everybody without accounts, the living servers of the database, as this one has seen them some
// seconds ago, and itself first. Their offers are those for the caller's project.
func (rt *Runtime) Servers(c Caller) ([]Server, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if rt.cfg.Accounts && c.role < RoleAdmin {
		return nil, errServers
	}
	list := rt.work.Fleet.Servers()
	list[0].Addr = cmp.Or(list[0].Addr, rt.cfg.Addr)
	for i := range list {
		list[i].Offer = slices.DeleteFunc(slices.Clone(list[i].Offer), func(o host.Offered) bool { return !o.In(c.project) })
	}
	return list, nil
}

// Fleet returns the other servers, as this one knows them.
func (rt *Runtime) Fleet() *fleet.Fleet { return rt.work.Fleet }

var errServers = refuse(KindForbidden, "forbidden", "Your role may not see the servers")

// ServersOf reads the descriptions of servers.
func ServersOf(rows []data.Server) []Server {
	list := make([]Server, len(rows))
	for i := range rows {
		list[i] = fleet.ReadServer(&rows[i])
	}
	return list
}

// mostLacks is how many definitions that a server lacks are named.
const mostLacks = 10

// Differences says how servers differ that should be equal: one sentence each.
func Differences(servers []Server) (list []string) {
	differ := func(what string, of func(i int) (string, bool)) {
		names := make(map[string][]string)
		for i := range servers {
			if v, ok := of(i); ok {
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
	differ("The versions of Baton differ", func(i int) (string, bool) { return servers[i].Version, servers[i].Version != "" })
	settings, names, labels := make(map[string]bool), make(map[string]bool), make(map[string]string)
	hashes := make([]map[string]string, len(servers)) // of definitions by their kinds and names, nil if a server has not sent them
	for i := range servers {
		s := &servers[i]
		for name := range s.Settings {
			settings[name] = true
		}
		if s.Offer != nil {
			hashes[i] = make(map[string]string, len(s.Offer))
		}
		for _, o := range s.Offer {
			name := o.Kind + " " + o.Name
			names[name], hashes[i][name] = true, o.Hash
			if o.RunOn != "" {
				labels[o.RunOn] = o.Name
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		differ("The settings "+name+" differ", func(i int) (string, bool) { v, ok := servers[i].Settings[name]; return v, ok })
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		differ("The definitions of the "+name+" differ", func(i int) (string, bool) { v, ok := hashes[i][name]; return v, ok })
	}
	for i := range servers {
		lacks := slices.DeleteFunc(slices.Sorted(maps.Keys(names)), func(name string) bool { return hashes[i] == nil || hashes[i][name] != "" })
		if more := len(lacks) - mostLacks; more > 0 {
			lacks = append(lacks[:mostLacks], fmt.Sprintf("%d more", more))
		}
		if len(lacks) > 0 {
			list = append(list, fmt.Sprintf("Other servers have definitions that %s lacks: %s", nameOf(&servers[i]), strings.Join(lacks, ", ")))
		}
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
