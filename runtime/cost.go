package runtime

import (
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Cost returns the cost of tokens by the current prices. It returns nil if one of the models has no price.
func (rt *Runtime) Cost(usage []agui.TokenUsage) *float64 {
	if len(usage) == 0 {
		return nil
	}
	sum := int64(0)
	for _, u := range usage {
		cost, known := rt.cfg.Prices.Cost(u)
		if !known {
			return nil
		}
		sum += cost
	}
	cost := float64(sum) / data.Money
	return &cost
}
