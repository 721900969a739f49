package metrics

import "sync"

// names keeps how many providers and models are told apart within bounds: workers name them, and some of those are other
// servers.
type names struct {
	mu   sync.Mutex // guards the field below
	seen map[[2]string]bool
}

const (
	mostNames = 100
	longest   = 100 // bytes
)

// of returns what stands for a provider and a model in labels.
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
