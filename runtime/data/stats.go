package data

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// Counter has statistics of runs. The commit that ends a run inserts a RunEnded, and the commit of a model call a
// CallUsage. RollUp adds these rows to sums by the minute, hour and day, and Stats adds the remaining rows when it reads.
type Counter interface {
	// RollUp adds the rows inserted since the last call to the sums, and returns their number. It also indexes the terms of these
	// runs and of open ones, and deletes sums older than MinutesKept, HoursKept and UsageKept. Call it every few seconds, from any instance.
	RollUp(ctx context.Context, now time.Time) (int, error)
	// Stats returns a project's sums from a time on, by steps of MinuteStep or HourStep, as of one moment.
	Stats(ctx context.Context, project string, step time.Duration, from, now time.Time) (Stats, error)
}

// RunEnded is the end of a run's generation.
type RunEnded struct {
	RunKey     int64
	Project    string
	Agent      string // agent's or workflow's name
	Status     Status
	Code       string // of its error
	First      bool   // first generation of the run
	CreatedAt  time.Time
	BegunAt    *time.Time // nil if the generation never began
	FinishedAt time.Time
}

// EndOf returns the RunEnded of an ended run.
func EndOf(h *RunHead) *RunEnded {
	e := &RunEnded{
		RunKey: h.Key, Project: h.Project, Agent: h.WorkflowID, Status: h.Status, First: h.Generation <= 1,
		CreatedAt: h.CreatedAt, BegunAt: begun(h), FinishedAt: *h.FinishedAt,
	}
	if h.Error != nil {
		e.Code = h.Error.Code
	}
	return e
}

// Steps and retention of statistics.
const (
	MinuteStep  = time.Minute
	MinutesKept = 26 * time.Hour
	HourStep    = time.Hour
	HoursKept   = 35 * 24 * time.Hour
)

// Stats are a project's statistics and current state.
type Stats struct {
	Tallies  map[time.Time]*Tally // by start of the step; empty steps are missing
	Counting bool                 // some rows are left out because RollUp lags behind
	Running  StatusCount
	Queued   StatusCount
	Waiting  StatusCount // without the parked ones; Since is the time of the oldest open interrupt
	Parked   StatusCount

	Instances []InstanceState // latest first
}

// StatusCount is the number of runs with a status, up to 10 000, and the time since which the first has it.
type StatusCount struct {
	Runs  int
	Since time.Time // zero for none
}

// InstanceState is an instance's last known state.
type InstanceState struct {
	Instance
	StartedAt time.Time
	Serving   bool // it may write
}

// begun returns the begin of the run's generation, nil if it has not begun. For a restarted run only its last queueing
// is known.
func begun(h *RunHead) *time.Time {
	switch {
	case h.Generation <= 1:
		return h.StartedAt
	case h.Status == Queued && !h.Answered:
		return nil
	}
	return &h.QueuedAt
}

// Tally sums up runs. Tallies can be added. A run counts once per generation: as started when it begins, with tokens
// when they are used, and otherwise when it ends.
type Tally struct {
	Started    int                    `json:"s,omitempty"`
	Completed  int                    `json:"c,omitempty"`
	Failed     int                    `json:"f,omitempty"`
	Cancelled  int                    `json:"x,omitempty"`
	FirstEvent Histogram              `json:"e,omitempty"` // from creation to begin, of first generations
	Duration   Histogram              `json:"d,omitempty"` // from begin to end
	Failures   map[string]int         `json:"w,omitempty"` // by code
	Agents     map[string]*AgentTally `json:"a,omitempty"`
}

// AgentTally sums up the runs of an agent or workflow.
type AgentTally struct {
	Runs     int               `json:"r,omitempty"` // ended
	Failed   int               `json:"f,omitempty"`
	Duration Histogram         `json:"d,omitempty"`
	Usage    []agui.TokenUsage `json:"u,omitempty"`
}

// Limits of a Tally's keys; the rest is Others.
const (
	maxCodes  = 100
	maxAgents = 500
	Others    = "other"
)

// CountOpen counts the begin of an open run's generation in the tally that at returns for its time.
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

// Count counts the generation's begin and end, each in the tally of its time.
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

// Count counts the call's tokens in the tally of its time.
func (c *CallUsage) Count(at func(time.Time) *Tally) {
	at(c.At).agent(c.Agent).spend([]agui.TokenUsage{c.Usage})
}

// Add adds another tally to t.
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

// Histogram counts durations in classes. Each class is a twelfth wider than the one before, so quantiles are within 5
// %. Histograms can be added.
type Histogram map[int]int

// classes is the number of classes in a doubling.
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

// Quantile returns the approximate duration in milliseconds that the fraction q does not exceed; 0 for none.
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

// middle returns the middle of a class.
func middle(class int) int64 {
	if class == 0 {
		return 0
	}
	return int64(math.Round(math.Exp2((float64(class-1) + 0.5) / classes)))
}
