package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/data"
)

// ReadServers reads the descriptions of servers.
func ReadServers(rows []data.Server) []Server {
	list := make([]Server, len(rows))
	for i := range rows {
		s := readServer(&rows[i])
		list[i] = s.in(&rows[i])
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
