package model

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// Counter tells what the runs of a project came to. What it costs does not grow with the runs that are kept: those that
// are over are counted once, by the minute and by the hour, and the few that are not counted yet are looked at.
type Counter interface {
	// RollUp counts what is over and not counted yet, and returns how much that was. It forgets what it has counted by the
	// minute and by the hour when that is old. It is meant to be called every few seconds, by any instance.
	RollUp(ctx context.Context, now time.Time) (int, error)
	// Stats returns what the runs of a project came to from a time on, by steps of MinuteStep or HourStep, as it is at one moment.
	// While much is not counted yet, some of that is left out.
	Stats(ctx context.Context, project string, step time.Duration, from, now time.Time) (Stats, error)
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
	Open     Tally                // tokens of runs that are not over
	Counting bool                 // so much is not counted yet that some is left out
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

// Counted is what is counted of one generation of a run.
type Counted struct {
	Key        int64
	Project    string
	Agent      string // the agent's or the workflow's name
	Status     Status
	Generation int
	Answered   bool
	Error      *agui.OutputError
	Usage      []agui.TokenUsage // of all its generations
	Before     []agui.TokenUsage // of those that are counted
	CreatedAt  time.Time
	QueuedAt   time.Time
	StartedAt  *time.Time
	FinishedAt *time.Time
}

// begun is when the generation began, nil when it has not. Of later ones only is known when they were queued.
func (c *Counted) begun() *time.Time {
	switch {
	case c.Generation <= 1:
		return c.StartedAt
	case c.Status == Queued && !c.Answered:
		return nil
	}
	return &c.QueuedAt
}

// Tally is what a number of runs came to. Tallies can be added up. A run counts once for each of its generations: with what
// began when that began, and with the rest when it ended.
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

// Count adds a generation of a run, each part of it to the tally of its time that at returns. Of one that is not over it adds
// what there is, and its tokens to open.
func Count(c *Counted, at func(time.Time) *Tally, open *Tally) {
	begun := c.begun()
	if begun != nil {
		t := at(*begun)
		t.Started++
		if c.Generation <= 1 {
			t.FirstEvent.add(begun.Sub(c.CreatedAt))
		}
	}
	spent := c.spent()
	if !c.Status.Final() || c.FinishedAt == nil {
		if len(spent) > 0 && open != nil {
			open.agent(c.Agent).spend(spent)
		}
		return
	}
	t := at(*c.FinishedAt)
	a := t.agent(c.Agent)
	a.Runs++
	a.spend(spent)
	switch c.Status {
	case Completed:
		t.Completed++
	case Cancelled:
		t.Cancelled++
	default:
		t.Failed++
		a.Failed++
		code := "unknown"
		if c.Error != nil && c.Error.Code != "" {
			code = c.Error.Code
		}
		t.fail(code, 1)
	}
	if begun != nil {
		took := c.FinishedAt.Sub(*begun)
		t.Duration.add(took)
		a.Duration.add(took)
	}
}

// spent is what was spent since the run was counted.
func (c *Counted) spent() (list []agui.TokenUsage) {
	for _, u := range c.Usage {
		for _, b := range c.Before {
			if b.Provider == u.Provider && b.Model == u.Model {
				u.InputTokens -= b.InputTokens
				u.OutputTokens -= b.OutputTokens
				u.TotalTokens -= b.TotalTokens
				u.ReasoningTokens -= b.ReasoningTokens
				u.CachedInputTokens -= b.CachedInputTokens
				u.CacheWriteInputTokens -= b.CacheWriteInputTokens
			}
		}
		if u != (agui.TokenUsage{Provider: u.Provider, Model: u.Model}) {
			list = append(list, u)
		}
	}
	return list
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
