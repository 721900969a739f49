package runtime

import (
	"sync"

	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/agui"
)

// prices compute the cost of tokens from the agents that are offered now.
type prices struct {
	reg    *host.Registry
	priced []host.Priced
}

func pricesOf(reg *host.Registry) prices {
	p := prices{reg: reg}
	for _, a := range reg.Agents() {
		if a, ok := a.(host.Priced); ok {
			p.priced = append(p.priced, a)
		}
	}
	return p
}

// of returns the cost of tokens in runs of an agent or workflow of that name. It uses the agent's prices, and for
// models without a price there the prices of the other agents, which the run may have called. It returns nil if one
// of the models has no price.
func (p prices) of(name string, usage []agui.TokenUsage) *float64 {
	if len(usage) == 0 || len(p.priced) == 0 {
		return nil
	}
	sum := 0.0
	for _, u := range usage {
		cost, known := p.one(name, u)
		if !known {
			return nil
		}
		sum += cost
	}
	return &sum
}

func (p prices) one(name string, u agui.TokenUsage) (float64, bool) {
	if a, ok := p.reg.Agent(name); ok {
		if a, ok := a.(host.Priced); ok {
			if cost, known := a.Cost(u); known {
				return cost, true
			}
		}
	}
	for _, a := range p.priced {
		if cost, known := a.Cost(u); known {
			return cost, true
		}
	}
	return 0, false
}

// Costs returns a function that computes the cost of tokens in runs of an agent or workflow that the caller may see,
// by the prices of the agents that are offered now. The function returns nil if one of the models has no price.
func (rt *Runtime) Costs(c Caller) func(agent string, usage []agui.TokenUsage) *float64 {
	p := sync.OnceValue(func() prices { return pricesOf(rt.Offered(c)) })
	return func(agent string, usage []agui.TokenUsage) *float64 {
		if len(usage) == 0 {
			return nil
		}
		return p().of(agent, usage)
	}
}
