package makers

import (
	"sync"

	"github.com/batonrun/baton/plugins/declared"
	"github.com/batonrun/baton/plugins/llm/pace"
)

// pacers are the process's, by base_url or provider. A provider counts all calls, those of replaced declarations too.
var pacers = struct {
	sync.Mutex
	by map[string]*pace.Pacer
}{by: make(map[string]*pace.Pacer)}

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
	for name := range limits {
		pacerOf(name)
	}
	for name, p := range pacers.by {
		l := limits[name]
		p.Configure(pace.Limits{Requests: int64(l.RPM), Tokens: int64(l.TPM), Concurrent: int64(l.Concurrent)})
	}
}
