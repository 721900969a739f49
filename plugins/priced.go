package plugins

import "github.com/batonrun/baton/runtime/agui"

// Priced is an Agent that knows what its model's tokens cost.
type Priced interface {
	Agent
	// Cost returns what the tokens of a model cost, and whether the agent has that model's price.
	Cost(u agui.TokenUsage) (cost float64, known bool)
}
