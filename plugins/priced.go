package plugins

import "github.com/batonrun/baton/runtime/agui"

// Priced is an Agent that knows the prices of its model's tokens.
type Priced interface {
	Agent
	// Cost returns the cost of a model's tokens, and whether the agent knows that model's price.
	Cost(u agui.TokenUsage) (cost float64, known bool)
}
