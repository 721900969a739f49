package wire

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Stats are the statistics of a project's runs in a window of time, and its current work.
type Stats struct {
	Window    runtime.Window `json:"window"`
	From      time.Time      `json:"from"`
	To        time.Time      `json:"to"`
	Step      int            `json:"step"` // seconds
	Buckets   []StatsBucket  `json:"buckets"`
	Totals    StatsTotals    `json:"totals"`
	Failures  []StatsFailure `json:"failures"` // by code, most frequent first
	Agents    []StatsAgent   `json:"agents"`   // the busiest first
	Now       StatsNow       `json:"now"`
	Instances []Instance     `json:"instances"` // the latest first
	Counting  bool           `json:"counting"`  // the totals are incomplete, as counting lags
}

// StatsTotals are the totals of some runs.
type StatsTotals struct {
	Started      int     `json:"started"`
	Completed    int     `json:"completed"`
	Failed       int     `json:"failed"`
	Cancelled    int     `json:"cancelled"`
	FirstEventMs *Spread `json:"firstEventMs"` // null without any
	DurationMs   *Spread `json:"durationMs"`
}

// StatsBucket is a step of time.
type StatsBucket struct {
	At           time.Time `json:"at"`
	Started      int       `json:"started"`
	Completed    int       `json:"completed"`
	Failed       int       `json:"failed"`
	Cancelled    int       `json:"cancelled"`
	FirstEventMs *Spread   `json:"firstEventMs"`
	DurationMs   *Spread   `json:"durationMs"`
}

// Spread is the distribution of times: the median and the 95th percentile.
type Spread struct {
	P50 int64 `json:"p50"`
	P95 int64 `json:"p95"`
}

// StatsFailure is how many runs have failed with a code.
type StatsFailure struct {
	Code  string `json:"code"`
	Count int    `json:"count"`
}

// StatsAgent are the totals of an agent or a workflow.
type StatsAgent struct {
	Agent        string   `json:"agent"`
	Runs         int      `json:"runs"` // that are over
	Failed       int      `json:"failed"`
	InputTokens  int64    `json:"inputTokens"`
	OutputTokens int64    `json:"outputTokens"`
	Cost         *float64 `json:"cost"` // null when one of its models has no price
	DurationMs   *Spread  `json:"durationMs"`
}

// StatsNow is the current work; each count stops at 10 000.
type StatsNow struct {
	Running         int        `json:"running"`
	Queued          int        `json:"queued"`
	Waiting         int        `json:"waiting"`
	OldestQueuedAt  *time.Time `json:"oldestQueuedAt"`
	OldestWaitingAt *time.Time `json:"oldestWaitingAt"` // when the oldest open question was asked
}

// Instance is a process that serves the database, or has.
type Instance struct {
	ID          string    `json:"id"`
	Version     *string   `json:"version"` // null of one that has ended, or has not told
	Address     *string   `json:"address"` // for operators and admins
	StartedAt   time.Time `json:"startedAt"`
	HeartbeatAt time.Time `json:"heartbeatAt"` // about when it was heard of last
	Serving     bool      `json:"serving"`
	Ended       *string   `json:"ended"` // "left", "fenced" or "crashed"; null while it serves
}

// NewStats returns statistics for the server of that version; cost returns the cost of tokens.
func NewStats(s *runtime.Statistics, version string, cost func(usage []agui.TokenUsage) *float64) Stats {
	shown := Stats{
		Window: s.Window, From: stamp(s.From), To: stamp(s.To), Step: int(s.Step / time.Second),
		Buckets: make([]StatsBucket, len(s.Buckets)), Totals: totals(&s.Totals), Failures: []StatsFailure{}, Agents: []StatsAgent{},
		Now: StatsNow{
			Running: s.Running.Runs, Queued: s.Queued.Runs, Waiting: s.Waiting.Runs,
			OldestQueuedAt: since(s.Queued), OldestWaitingAt: since(s.Waiting),
		},
		Counting: s.Counting, Instances: make([]Instance, len(s.Instances)),
	}
	for i := range s.Buckets {
		t := totals(&s.Buckets[i].Tally)
		shown.Buckets[i] = StatsBucket{stamp(s.Buckets[i].At), t.Started, t.Completed, t.Failed, t.Cancelled, t.FirstEventMs, t.DurationMs}
	}
	for _, code := range slices.Sorted(maps.Keys(s.Totals.Failures)) {
		shown.Failures = append(shown.Failures, StatsFailure{code, s.Totals.Failures[code]})
	}
	slices.SortStableFunc(shown.Failures, func(a, b StatsFailure) int { return cmp.Compare(b.Count, a.Count) })
	for _, name := range slices.Sorted(maps.Keys(s.Totals.Agents)) {
		a := s.Totals.Agents[name]
		agent := StatsAgent{Agent: name, Runs: a.Runs, Failed: a.Failed, DurationMs: spread(a.Duration), Cost: cost(a.Usage)}
		for _, u := range a.Usage {
			agent.InputTokens += u.InputTokens
			agent.OutputTokens += u.OutputTokens
		}
		shown.Agents = append(shown.Agents, agent)
	}
	slices.SortStableFunc(shown.Agents, func(a, b StatsAgent) int { return cmp.Compare(b.Runs, a.Runs) })
	for i := range s.Instances {
		in := &s.Instances[i]
		shown.Instances[i] = Instance{
			ID: in.ID, Address: orNull(in.Addr), StartedAt: stamp(in.StartedAt), HeartbeatAt: stamp(in.SeenAt), Serving: in.Serving,
			Ended: orNull(string(in.End)),
		}
		shown.Instances[i].Version = orNull(s.Versions[in.ID])
		if in.ID == s.Self {
			shown.Instances[i].Version, shown.Instances[i].HeartbeatAt = &version, stamp(s.To)
		}
	}
	return shown
}

func totals(t *runtime.Tally) StatsTotals {
	return StatsTotals{t.Started, t.Completed, t.Failed, t.Cancelled, spread(t.FirstEvent), spread(t.Duration)}
}

func spread(h runtime.Histogram) *Spread {
	if len(h) == 0 {
		return nil
	}
	return &Spread{h.Quantile(0.5), h.Quantile(0.95)}
}

func since(c runtime.StatusCount) *time.Time {
	if c.Since.IsZero() {
		return nil
	}
	return stampOrNull(&c.Since)
}
