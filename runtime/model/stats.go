package model

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// Counter tells what the runs of a project came to. The commit that ends a run inserts a RunEnded, and the commit of a model
// call inserts a CallUsage. RollUp adds these rows to sums by the minute and by the hour; Stats adds the rest to the sums.
type Counter interface {
	// RollUp adds the rows that were inserted since the last call to the sums, and returns how many there were. It deletes sums
	// that are older than MinutesKept and HoursKept. It should be called every few seconds; any instance may call it.
	RollUp(ctx context.Context, now time.Time) (int, error)
	// Stats returns what the runs of a project came to from a time on, by steps of MinuteStep or HourStep, as of one moment.
	Stats(ctx context.Context, project string, step time.Duration, from, now time.Time) (Stats, error)
}

// RunEnded says how a generation of a run has ended.
type RunEnded struct {
	Project    string
	Agent      string // the agent's or the workflow's name
	Status     Status
	Code       string // of its error
	First      bool   // it was the run's first generation
	CreatedAt  time.Time
	BegunAt    *time.Time // nil when the generation has not begun
	FinishedAt time.Time
}

// EndOf returns how the run has ended.
func EndOf(h *RunHead) *RunEnded {
	e := &RunEnded{
		Project: h.Project, Agent: h.WorkflowID, Status: h.Status, First: h.Generation <= 1,
		CreatedAt: h.CreatedAt, BegunAt: begun(h), FinishedAt: *h.FinishedAt,
	}
	if h.Error != nil {
		e.Code = h.Error.Code
	}
	return e
}

// CallUsage says which tokens a call of a model has used.
type CallUsage struct {
	Project string
	Agent   string // the name of the run's agent or workflow
	At      time.Time
	Usage   agui.TokenUsage
}

// Used reports whether the call has used tokens.
func (c *CallUsage) Used() bool {
	return c.Usage != agui.TokenUsage{Provider: c.Usage.Provider, Model: c.Usage.Model}
}

// Tokens is the number of input and output tokens.
func (c *CallUsage) Tokens() int64 { return plus(c.Usage.InputTokens, c.Usage.OutputTokens) }

// Tokens are the tokens that the model calls of a project have used in a TokenStep.
type Tokens struct {
	Project string
	At      time.Time // the begin of the step
	Tokens  int64     // of input and output
}

// How tokens are counted for a project's limit.
const (
	TokenStep   = 15 * time.Minute
	TokenWindow = 24 * time.Hour
)

// plus adds numbers that are not negative. The sum is bounded.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// What is counted, and for how long it is kept.
const (
	MinuteStep  = time.Minute
	MinutesKept = 26 * time.Hour
	HourStep    = time.Hour
	HoursKept   = 35 * 24 * time.Hour
)

// Stats are what the runs of a project came to, and what goes on.
type Stats struct {
	Tallies  map[time.Time]*Tally // by the begin of each step in which something was
	Counting bool                 // so many rows wait for RollUp that some are left out
	Running  StatusCount
	Queued   StatusCount
	Waiting  StatusCount // Since is when the first of what they wait for was asked

	Instances []InstanceState // those that came last first
}

// StatusCount tells how many runs have a status, up to 10 000, and since when the first of them has it.
type StatusCount struct {
	Runs  int
	Since time.Time // zero for none
}

// InstanceState is an instance as it was last heard of.
type InstanceState struct {
	Instance
	StartedAt time.Time
	SeenAt    time.Time // about
	Serving   bool      // it may write
}

// begun is when the run's generation began, nil when it has not. For a later generation only the time when it was last queued is
// known.
func begun(h *RunHead) *time.Time {
	switch {
	case h.Generation <= 1:
		return h.StartedAt
	case h.Status == Queued && !h.Answered:
		return nil
	}
	return &h.QueuedAt
}

// Tally is what a number of runs came to. Tallies can be added up. A run counts once for each of its generations: as started when
// it began, its tokens when they were used, and the rest when it ended.
type Tally struct {
	Started    int                    `json:"s,omitempty"`
	Completed  int                    `json:"c,omitempty"`
	Failed     int                    `json:"f,omitempty"`
	Cancelled  int                    `json:"x,omitempty"`
	FirstEvent Histogram              `json:"e,omitempty"` // from a run's creation until it began, of first generations
	Duration   Histogram              `json:"d,omitempty"` // from its begin to its end
	Failures   map[string]int         `json:"w,omitempty"` // by code
	Agents     map[string]*AgentTally `json:"a,omitempty"`
}

// AgentTally is what the runs of an agent or a workflow came to.
type AgentTally struct {
	Runs     int               `json:"r,omitempty"` // that are over
	Failed   int               `json:"f,omitempty"`
	Duration Histogram         `json:"d,omitempty"`
	Usage    []agui.TokenUsage `json:"u,omitempty"`
}

// What a Tally tells apart; the rest is Others.
const (
	maxCodes  = 100
	maxAgents = 500
	Others    = "other"
)

// CountOpen adds the begin of the generation of a run that has not ended to the tally of its time, which at returns.
func CountOpen(h *RunHead, at func(time.Time) *Tally) {
	countBegin(begun(h), h.CreatedAt, h.Generation <= 1, at)
}

func countBegin(begun *time.Time, created time.Time, first bool, at func(time.Time) *Tally) {
	if begun == nil {
		return
	}
	t := at(*begun)
	t.Started++
	if first {
		t.FirstEvent.add(begun.Sub(created))
	}
}

// Count adds the generation: its begin and its end each to the tally of their time, which at returns.
func (e *RunEnded) Count(at func(time.Time) *Tally) {
	countBegin(e.BegunAt, e.CreatedAt, e.First, at)
	t := at(e.FinishedAt)
	a := t.agent(e.Agent)
	a.Runs++
	switch e.Status {
	case Completed:
		t.Completed++
	case Cancelled:
		t.Cancelled++
	default:
		t.Failed++
		a.Failed++
		t.fail(cmp.Or(e.Code, "unknown"), 1)
	}
	if e.BegunAt != nil {
		took := e.FinishedAt.Sub(*e.BegunAt)
		t.Duration.add(took)
		a.Duration.add(took)
	}
}

// Count adds the call's tokens to the tally of its time, which at returns.
func (c *CallUsage) Count(at func(time.Time) *Tally) {
	at(c.At).agent(c.Agent).spend([]agui.TokenUsage{c.Usage})
}

// Tokens is the number of input and output tokens.
func (t *Tally) Tokens() (n int64) {
	for _, a := range t.Agents {
		for _, u := range a.Usage {
			n = plus(n, plus(u.InputTokens, u.OutputTokens))
		}
	}
	return n
}

// Add adds another tally.
func (t *Tally) Add(o *Tally) {
	t.Started += o.Started
	t.Completed += o.Completed
	t.Failed += o.Failed
	t.Cancelled += o.Cancelled
	t.FirstEvent.merge(o.FirstEvent)
	t.Duration.merge(o.Duration)
	for _, code := range slices.Sorted(maps.Keys(o.Failures)) {
		t.fail(code, o.Failures[code])
	}
	for _, name := range slices.Sorted(maps.Keys(o.Agents)) {
		a, other := t.agent(name), o.Agents[name]
		a.Runs += other.Runs
		a.Failed += other.Failed
		a.Duration.merge(other.Duration)
		a.spend(other.Usage)
	}
}

func (t *Tally) fail(code string, n int) {
	if t.Failures == nil {
		t.Failures = make(map[string]int)
	}
	if _, there := t.Failures[code]; !there && len(t.Failures) >= maxCodes {
		code = Others
	}
	t.Failures[code] += n
}

func (t *Tally) agent(name string) *AgentTally {
	if t.Agents == nil {
		t.Agents = make(map[string]*AgentTally)
	}
	if t.Agents[name] == nil && len(t.Agents) >= maxAgents {
		name = Others
	}
	if t.Agents[name] == nil {
		t.Agents[name] = new(AgentTally)
	}
	return t.Agents[name]
}

func (a *AgentTally) spend(usage []agui.TokenUsage) {
	for _, u := range usage {
		a.Usage = agui.AddUsage(a.Usage, u)
	}
}

// Histogram counts times by their length, in classes of which each is a twelfth longer than the one before: what it tells of
// them is at most 5 % wrong. Histograms can be added up.
type Histogram map[int]int

// classes are how many classes a doubling has.
const classes = 8

func (h *Histogram) add(d time.Duration) {
	class := 0
	if ms := d.Milliseconds(); ms > 0 {
		class = 1 + int(math.Log2(float64(ms))*classes)
	}
	h.merge(Histogram{class: 1})
}

func (h *Histogram) merge(o Histogram) {
	if *h == nil && len(o) > 0 {
		*h = make(Histogram, len(o))
	}
	for class, n := range o {
		(*h)[class] += n
	}
}

// Quantile returns the time in milliseconds that a part q of those in the histogram do not exceed, about; 0 for none.
func (h Histogram) Quantile(q float64) int64 {
	all := 0
	for _, n := range h {
		all += n
	}
	rank := int(math.Ceil(q * float64(all)))
	for _, class := range slices.Sorted(maps.Keys(h)) {
		if rank -= h[class]; rank <= 0 {
			return middle(class)
		}
	}
	return 0
}

// middle is a time in the middle of a class.
func middle(class int) int64 {
	if class == 0 {
		return 0
	}
	return int64(math.Round(math.Exp2((float64(class-1) + 0.5) / classes)))
}
