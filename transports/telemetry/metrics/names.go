package metrics

import "sync"

// names limits the number of providers and models in labels, as workers choose the names, and some workers are remote
// servers.
type names struct {
	mu   sync.Mutex // guards the field below
	seen map[[2]string]bool
}

const (
	mostNames = 100
	longest   = 100 // bytes
)

// of returns the label values for a provider and a model.
func (n *names) of(provider, model string) (string, string) {
	if provider == "" {
		provider = "unknown"
	}
	if model == "" {
		model = "unknown"
	}
	key := [2]string{provider, model}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.seen[key]:
	case len(n.seen) >= mostNames, len(provider) > longest, len(model) > longest:
		return "other", "other"
	default:
		n.seen[key] = true
	}
	return provider, model
}
