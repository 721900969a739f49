package runtime

import (
	"cmp"
	"slices"

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
func ServersOf(rows []data.Server) []Server { return fleet.ReadServers(rows) }

// Differences says how servers differ that should be equal: one sentence each.
func Differences(servers []Server) []string { return fleet.Differences(servers) }
