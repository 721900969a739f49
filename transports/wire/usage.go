package wire

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime"
)

// Usage is the usage of a project's model calls.
type Usage struct {
	Since string     `json:"since"` // First day.
	Until string     `json:"until"` // Last day.
	Items []UsageSum `json:"items"`
}

// UsageSum is the usage of the calls in one group.
type UsageSum struct {
	Day               string   `json:"day,omitempty"` // The day, in UTC.
	User              string   `json:"user,omitempty"`
	Agent             string   `json:"agent,omitempty"` // The agent or workflow of the run.
	Provider          string   `json:"provider,omitempty"`
	Model             string   `json:"model,omitempty"`
	Calls             int64    `json:"calls"`
	Tokens            int64    `json:"tokens"`      // Input and output tokens.
	InputTokens       int64    `json:"inputTokens"` // Includes cached tokens.
	CachedInputTokens int64    `json:"cachedInputTokens"`
	OutputTokens      int64    `json:"outputTokens"` // Includes reasoning tokens.
	ReasoningTokens   int64    `json:"reasoningTokens"`
	Cost              *float64 `json:"cost"`     // Cost at the prices at the time of each call. Null on a server without prices.
	Currency          *string  `json:"currency"` // Null on a server without prices.
}

const day = time.DateOnly

// UsageQuery reads the query of a request for usage. Without days it is for the current month up to now.
func UsageQuery(by, since, until string, now time.Time) (f runtime.UsageFilter, err error) {
	for name := range strings.SplitSeq(by, ",") {
		switch strings.TrimSpace(name) {
		case "":
		case "user":
			f.ByUser = true
		case "agent":
			f.ByAgent = true
		case "model":
			f.ByModel = true
		case "day":
			f.ByDay = true
		default:
			return f, Refuse("invalid_request", "by must be a list of user, agent, model and day")
		}
	}
	today := now.UTC().Truncate(24 * time.Hour)
	f.Since, f.Until = today.AddDate(0, 0, 1-today.Day()), today
	if since != "" {
		if f.Since, err = time.Parse(day, since); err != nil {
			return f, Refuse("invalid_request", "since must be a day like 2024-01-15")
		}
	}
	if until != "" {
		if f.Until, err = time.Parse(day, until); err != nil {
			return f, Refuse("invalid_request", "until must be a day like 2024-01-15")
		}
	}
	if f.Since.After(f.Until) {
		return f, Refuse("invalid_request", "since must not be after until")
	}
	return f, nil
}

// NewUsage returns the usage that a filter has selected, with its costs in currency, which may be empty.
func NewUsage(f *runtime.UsageFilter, sums []runtime.UsageSum, currency string) Usage {
	u := Usage{Since: f.Since.Format(day), Until: f.Until.Format(day), Items: make([]UsageSum, len(sums))}
	for i := range sums {
		s := &sums[i]
		u.Items[i] = UsageSum{
			User: s.User, Agent: s.Agent, Provider: s.Provider, Model: s.Model, Calls: s.Calls, Tokens: s.Tokens(), InputTokens: s.Input,
			CachedInputTokens: s.Cached, OutputTokens: s.Output, ReasoningTokens: s.Reasoning,
		}
		if f.ByDay {
			u.Items[i].Day = s.Day.Format(day)
		}
		if currency != "" {
			u.Items[i].Cost, u.Items[i].Currency = new(s.Money()), &currency
		}
	}
	return u
}

// WriteCSV writes the sums as CSV, with a line of names first. No cell is a formula.
func (u *Usage) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{ // Error returns what has failed
		"day", "user", "agent", "provider", "model", "calls", "tokens", "inputTokens", "cachedInputTokens", "outputTokens", "reasoningTokens", "cost", "currency",
	})
	for i := range u.Items {
		s := &u.Items[i]
		line := []string{s.Day, cell(s.User), cell(s.Agent), cell(s.Provider), cell(s.Model)}
		for _, n := range []int64{s.Calls, s.Tokens, s.InputTokens, s.CachedInputTokens, s.OutputTokens, s.ReasoningTokens} {
			line = append(line, strconv.FormatInt(n, 10))
		}
		cost, currency := "", ""
		if s.Cost != nil {
			cost, currency = strconv.FormatFloat(*s.Cost, 'f', -1, 64), cell(*s.Currency)
		}
		_ = out.Write(append(line, cost, currency))
	}
	out.Flush()
	return out.Error()
}

// cell returns a text for CSV. A spreadsheet takes one that begins like a formula for text, too.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// Budget is a limit on what model calls may use. Calls in progress may exceed it.
type Budget struct {
	Name     string     `json:"name"`
	Scope    string     `json:"scope" enum:"project,user,agent,run"` // What has the budget.
	Of       *string    `json:"of"`                                  // The project, user or agent that has it. Null if each run has one.
	Per      *string    `json:"per" enum:"day,month"`                // The period. Null for a run's budget.
	Unit     string     `json:"unit"`                                // `tokens` or a currency.
	Limit    float64    `json:"limit"`                               // The limit, including raises by operators.
	Used     *float64   `json:"used"`                                // Null for a run's budget.
	ResetsAt *time.Time `json:"resetsAt"`                            // Start of the next period. Null for a run's budget.
	Over     string     `json:"over" enum:"stop,ask"`                // What happens to runs when the budget is used up.
}

// NewBudget returns a budget as the API shows it.
func NewBudget(s *runtime.BudgetState) Budget {
	b := Budget{Name: s.Name, Scope: s.Scope, Of: orNull(s.Subject), Per: orNull(s.Per), Unit: s.Unit, Limit: s.Value(s.Amount), Over: "stop"}
	if s.Asks() {
		b.Over = "ask"
	}
	if !s.EachRun() {
		b.Used, b.ResetsAt = new(s.Value(s.Used)), new(stamp(s.ResetsAt))
	}
	return b
}
