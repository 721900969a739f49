package data

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// Prices are the prices of models in one currency.
type Prices struct {
	Currency string           // such as USD; empty if nothing has a price
	Models   map[string]Price // by the model's name
}

// Price is the price of a million tokens of a model. CachedInput applies to input tokens that the provider had cached; 0 means
// Input.
type Price struct{ Input, CachedInput, Output float64 }

// Money is one unit of a currency: costs are whole billionths, so that their sums are exact.
const Money = 1_000_000_000

// Cost returns the cost of tokens in billionths of the currency, and whether their model has a price.
func (p *Prices) Cost(u agui.TokenUsage) (cost int64, known bool) {
	price, known := p.Models[u.Model]
	cached := min(u.CachedInputTokens, u.InputTokens)
	const each = Money / 1e6
	sum := float64(u.InputTokens-cached)*price.Input + float64(cached)*cmp.Or(price.CachedInput, price.Input) + float64(u.OutputTokens)*price.Output
	return int64(min(math.Round(sum*each), math.MaxInt64/2)), known
}

// Sum returns the cost of tokens in the currency. It returns nil without tokens, or if one of the models has no price.
func (p *Prices) Sum(usage []agui.TokenUsage) *float64 {
	if len(usage) == 0 {
		return nil
	}
	sum := int64(0)
	for _, u := range usage {
		cost, known := p.Cost(u)
		if !known {
			return nil
		}
		sum += cost
	}
	return new(float64(sum) / Money)
}

// CallUsage is the usage of one model call, or of a part of it.
type CallUsage struct {
	Project string
	User    string
	Agent   string // name of the run's agent or workflow
	At      time.Time
	Usage   agui.TokenUsage
	Calls   int   // 1, or 0 for a further part of a call
	Cost    int64 // in billionths of the currency, by the prices of that time; 0 if the model had none
}

// Used reports whether the call used any tokens.
func (c *CallUsage) Used() bool {
	return c.Usage != agui.TokenUsage{Provider: c.Usage.Provider, Model: c.Usage.Model}
}

// Tokens returns the number of input and output tokens.
func (c *CallUsage) Tokens() int64 { return Plus(c.Usage.InputTokens, c.Usage.OutputTokens) }

// Spender returns the call's spender.
func (c *CallUsage) Spender() Spender { return Spender{c.Project, c.User, c.Agent} }

// Sum returns the call's part of the usage of its day.
func (c *CallUsage) Sum() UsageSum {
	return UsageSum{
		UsageKey: UsageKey{User: c.User, Agent: c.Agent, Provider: c.Usage.Provider, Model: c.Usage.Model, Day: Day(c.At)},
		Calls:    int64(c.Calls), Input: c.Usage.InputTokens, Cached: c.Usage.CachedInputTokens, Output: c.Usage.OutputTokens,
		Reasoning: c.Usage.ReasoningTokens, Cost: c.Cost,
	}
}

// Day returns the beginning of a time's day in UTC.
func Day(at time.Time) time.Time { return at.UTC().Truncate(24 * time.Hour) }

// UsageKey is a group of usage. A field that is not grouped by is empty.
type UsageKey struct {
	User, Agent, Provider, Model string
	Day                          time.Time
}

// UsageSum is the usage of model calls.
type UsageSum struct {
	UsageKey
	Calls                            int64
	Input, Cached, Output, Reasoning int64 // tokens; Input includes Cached, and Output Reasoning
	Cost                             int64 // in billionths of the currency
}

// Add adds the numbers of another sum.
func (s *UsageSum) Add(o *UsageSum) {
	s.Calls, s.Cost = Plus(s.Calls, o.Calls), Plus(s.Cost, o.Cost)
	s.Input, s.Cached = Plus(s.Input, o.Input), Plus(s.Cached, o.Cached)
	s.Output, s.Reasoning = Plus(s.Output, o.Output), Plus(s.Reasoning, o.Reasoning)
}

// Money returns the cost in the currency.
func (s *UsageSum) Money() float64 { return float64(s.Cost) / Money }

// Tokens returns the number of input and output tokens.
func (s *UsageSum) Tokens() int64 { return Plus(s.Input, s.Output) }

// UsageFilter selects usage, and the fields to group it by.
type UsageFilter struct {
	Project                         string
	User                            string    // empty for all
	Since, Until                    time.Time // the first and the last day
	ByUser, ByAgent, ByModel, ByDay bool
	Limit                           int
}

// Key returns the fields of k that the filter sums by.
func (f *UsageFilter) Key(k UsageKey) UsageKey {
	if !f.ByUser {
		k.User = ""
	}
	if !f.ByAgent {
		k.Agent = ""
	}
	if !f.ByModel {
		k.Provider, k.Model = "", ""
	}
	if !f.ByDay {
		k.Day = time.Time{}
	}
	return k
}

// Ledger has the usage of model calls. The commit of a model call inserts a CallUsage, which counts at once; RollUp later adds it to
// the sums of its day.
type Ledger interface {
	// Usage returns up to limit sums that the filter selects, as of one moment, in the order of the key's day, user, agent, provider
	// and model.
	Usage(ctx context.Context, f UsageFilter) ([]UsageSum, error)
}

// UsageKept is how long the usage of a day is kept.
const UsageKept = 400 * 24 * time.Hour

// Spender is a user's runs of an agent or workflow in a project.
type Spender struct{ Project, User, Agent string }

// Spending is the use of a spender in a period.
type Spending struct {
	Spender
	Tokens int64 // of input and output
	Cost   int64 // in billionths of the currency
}

// Plus adds non-negative numbers without overflow.
func Plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
