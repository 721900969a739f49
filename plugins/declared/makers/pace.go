package makers

import (
	"sync"

	"github.com/batonrun/baton/plugins/declared"
	"github.com/batonrun/baton/plugins/llm/pace"
)

// pacers are the process's, by base_url or provider. A provider counts all calls, those of replaced declarations too.
var pacers = struct {
	sync.Mutex
	by      map[string]*pace.Pacer
	limits  map[string]declared.Provider
	servers int // which share the limits
}{by: make(map[string]*pace.Pacer), servers: 1}

// pacer returns the Pacer of a provider's models.
func pacer(m declared.Model) *pace.Pacer {
	pacers.Lock()
	defer pacers.Unlock()
	return pacerOf(keyOf(m))
}

// keyOf returns the name of a model's provider in the section providers.
func keyOf(m declared.Model) string {
	if m.BaseURL != "" {
		return m.BaseURL
	}
	return m.Provider
}

// pacerOf returns the Pacer of a name. The caller holds the lock.
func pacerOf(name string) *pace.Pacer {
	p := pacers.by[name]
	if p == nil {
		p = pace.New()
		pacers.by[name] = p
	}
	return p
}

// limit sets the limits of all providers.
func limit(limits map[string]declared.Provider) {
	pacers.Lock()
	defer pacers.Unlock()
	pacers.limits = limits
	for name := range limits {
		pacerOf(name)
	}
	configure()
}

// Share gives this process an equal part of the limits of all providers, of which so many servers have one.
func Share(servers int) {
	pacers.Lock()
	defer pacers.Unlock()
	pacers.servers = max(1, servers)
	configure()
}

// configure gives the Pacers their parts of the limits, at least one of each. The caller holds the lock.
func configure() {
	part := func(limit int) int64 {
		if limit == 0 {
			return 0
		}
		return int64(max(1, limit/pacers.servers))
	}
	for name, p := range pacers.by {
		l := pacers.limits[name]
		p.Configure(pace.Limits{Requests: part(l.RPM), Tokens: part(l.TPM), Concurrent: part(l.Concurrent)})
	}
}
