package data

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// Budget limits what model calls may use. A call reserves its estimated use before it is made, and is counted at its end, so that the budget is
// exceeded by the errors of the estimates.
type Budget struct {
	Name  string  // unique
	Scope string  // project, user, agent or run: each has a budget of its own; users and agents are those of a project
	Of    string  // the only project, user or agent that has it; of a run, the only agent or workflow. Empty for each
	Per   string  // day or month in UTC; empty for a run
	Unit  string  // tokens, of input and output, or the currency of Prices
	Limit float64 // in that unit
	Over  string  // stop, the default, fails runs at their next call; ask has them ask an operator
}

// The values of Budget's fields.
const (
	OfProject = "project"
	OfUser    = "user"
	OfAgent   = "agent"
	OfRun     = "run"

	PerDay   = "day"
	PerMonth = "month"

	UnitTokens = "tokens"

	OverStop = "stop"
	OverAsk  = "ask"
)

// MostBudgets is how many budgets there can be.
const MostBudgets = 100

// CheckBudgets returns the first error in budgets.
func CheckBudgets(list []Budget, p *Prices) error {
	if len(list) > MostBudgets {
		return fmt.Errorf("there can be %d budgets", MostBudgets)
	}
	for i := range list {
		if err := list[i].check(p); err != nil {
			return fmt.Errorf("budget %q: %w", list[i].Name, err)
		}
		if slices.ContainsFunc(list[:i], func(b Budget) bool { return b.Name == list[i].Name }) {
			return fmt.Errorf("budget %q is there twice", list[i].Name)
		}
	}
	return nil
}

func (b *Budget) check(p *Prices) error {
	switch {
	case b.Name == "" || len(b.Name) > 200:
		return errors.New("name must have 1 to 200 bytes")
	case !slices.Contains([]string{OfProject, OfUser, OfAgent, OfRun}, b.Scope):
		return fmt.Errorf("scope must be project, user, agent or run, not %q", b.Scope)
	case b.Scope == OfRun && b.Per != "":
		return errors.New("a run's budget has no per")
	case b.Scope != OfRun && b.Per != PerDay && b.Per != PerMonth:
		return fmt.Errorf("per must be day or month, not %q", b.Per)
	case b.Unit != UnitTokens && (b.Unit != p.Currency || b.Unit == ""):
		return fmt.Errorf("unit must be tokens or the currency of prices, not %q", b.Unit)
	case !(b.Limit > 0) || b.Amount(b.Limit) == math.MaxInt64:
		return fmt.Errorf("limit must be above 0, and not %g", b.Limit)
	case b.Over != "" && b.Over != OverStop && b.Over != OverAsk:
		return fmt.Errorf("over must be stop or ask, not %q", b.Over)
	}
	return nil
}

// EachRun reports whether each run has the budget, which then has no period.
func (b *Budget) EachRun() bool { return b.Scope == OfRun }

// Asks reports whether a run asks an operator once the budget is used up.
func (b *Budget) Asks() bool { return b.Over == OverAsk }

// Amount returns a value of the budget's unit as it is counted: tokens, or billionths of the currency.
func (b *Budget) Amount(value float64) int64 {
	if b.Unit != UnitTokens {
		value *= Money
	}
	if value >= math.MaxInt64/2 {
		return math.MaxInt64
	}
	return int64(math.Round(value))
}

// Value returns an amount in the budget's unit.
func (b *Budget) Value(amount int64) float64 {
	if b.Unit != UnitTokens {
		return float64(amount) / Money
	}
	return float64(amount)
}

// Counts returns the use of a budget by tokens and their cost.
func (b *Budget) Counts(tokens, cost int64) int64 {
	if b.Unit == UnitTokens {
		return tokens
	}
	return cost
}

// Subject returns the owner of the budget that a spender uses: its project, user or agent. It is false if the spender has none.
func (b *Budget) Subject(s Spender) (subject string, has bool) {
	switch b.Scope {
	case OfProject:
		subject = s.Project
	case OfUser:
		subject = s.User
	default:
		subject = s.Agent
	}
	return subject, b.Of == "" || b.Of == subject
}

// Period returns the day or month of a time, in UTC.
func (b *Budget) Period(now time.Time) (from, until time.Time) {
	from = Day(now)
	if b.Per != PerMonth {
		return from, from.AddDate(0, 0, 1)
	}
	from = from.AddDate(0, 0, 1-from.Day())
	return from, from.AddDate(0, 1, 0)
}

// Raise is a higher limit of a budget in one period. A row replaces the one of the same budget, subject and period.
type Raise struct {
	Budget  string // its name
	Project string
	Subject string    // see Budget.Subject
	From    time.Time // when the period begins
	Amount  int64     // see Budget.Amount
}

// Reserved is what the model calls under way on an instance have reserved of a budget.
type Reserved struct {
	Budget  string // its name
	Subject string // see Budget.Subject
	From    time.Time
	Amount  int64 // see Budget.Amount
}

// BudgetState is a budget with its use.
type BudgetState struct {
	Budget
	Subject  string    // who has it; empty for a run's
	Used     int64     // see Budget.Amount
	Amount   int64     // the limit that holds now
	From     time.Time // when the period began; zero for a run's
	ResetsAt time.Time // when the next period begins; zero for a run's
}

// Spent reports whether the budget is used up.
func (s *BudgetState) Spent() bool { return s.Used >= s.Amount }

// Event is the event that reports the use.
func (s *BudgetState) Event() agui.Custom {
	return agui.BudgetUse{Name: s.Name, Used: s.Value(s.Used), Limit: s.Value(s.Amount)}.Event()
}

// String describes the used-up budget as a sentence for clients.
func (s *BudgetState) String() string {
	return fmt.Sprintf("The budget %q is used up: %s", s.Name, s.Use())
}

// Use describes the use, such as 40 of 100 tokens.
func (s *BudgetState) Use() string {
	number := func(amount int64) string { return strconv.FormatFloat(s.Value(amount), 'f', -1, 64) }
	return number(s.Used) + " of " + number(s.Amount) + " " + s.Unit
}
