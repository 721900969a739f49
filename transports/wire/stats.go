package wire

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Stats are the statistics of a project's runs, and their current state.
type Stats struct {
	Window   runtime.Window `json:"window" enum:"hour,day,week"` // The time window.
	From     time.Time      `json:"from"`                        // Start of the window.
	To       time.Time      `json:"to"`                          // End of the window.
	Step     int            `json:"step"`                        // Length of a bucket, in seconds.
	Buckets  []StatsBucket  `json:"buckets"`                     // The window in buckets of `step` seconds.
	Totals   StatsTotals    `json:"totals"`                      // Totals of the window.
	Failures []StatsFailure `json:"failures"`                    // Failures by error code, sorted by count. At most 100 codes, the rest as `other`.
	// Agents and workflows, sorted by number of runs. Tokens include what unfinished runs have used so far.
	Agents    []StatsAgent `json:"agents"`
	Now       StatsNow     `json:"now"`       // The current state.
	Instances []Instance   `json:"instances"` // Server processes, newest first.
	// Earlier runs are still being counted, for example after an upgrade. Numbers are too low until this is false.
	Counting bool `json:"counting"`
}

// StatsTotals are the totals of the window.
type StatsTotals struct {
	Started      int     `json:"started"`      // Generations started.
	Completed    int     `json:"completed"`    // Generations completed.
	Failed       int     `json:"failed"`       // Generations failed.
	Cancelled    int     `json:"cancelled"`    // Generations cancelled.
	FirstEventMs *Spread `json:"firstEventMs"` // Null without any run.
	DurationMs   *Spread `json:"durationMs"`   // Null without any run.
}

// StatsBucket are the counts of one time bucket.
type StatsBucket struct {
	At           time.Time `json:"at"` // Start of the bucket.
	Started      int       `json:"started"`
	Completed    int       `json:"completed"`
	Failed       int       `json:"failed"`
	Cancelled    int       `json:"cancelled"`
	FirstEventMs *Spread   `json:"firstEventMs"`
	DurationMs   *Spread   `json:"durationMs"`
}

// Spread is the median and the 95th percentile, in milliseconds.
type Spread struct {
	P50 int64 `json:"p50"` // The median.
	P95 int64 `json:"p95"` // The 95th percentile.
}

// StatsFailure is the number of runs that failed with an error code.
type StatsFailure struct {
	Code  string `json:"code"`  // The error code.
	Count int    `json:"count"` // Number of runs.
}

// StatsAgent are the statistics of an agent or workflow.
type StatsAgent struct {
	Agent        string   `json:"agent"`  // The agent or workflow.
	Runs         int      `json:"runs"`   // Number of finished runs.
	Failed       int      `json:"failed"` // Number of failed runs.
	InputTokens  int64    `json:"inputTokens"`
	OutputTokens int64    `json:"outputTokens"`
	Cost         *float64 `json:"cost"` // Cost at current prices. Null if a model has no price.
	DurationMs   *Spread  `json:"durationMs"`
}

// StatsNow is the current state. Each number counts up to 10 000.
type StatsNow struct {
	Running         int        `json:"running"` // Running runs.
	Queued          int        `json:"queued"`  // Queued runs.
	Waiting         int        `json:"waiting"` // Runs that wait for an answer.
	Parked          int        `json:"parked"`  // Runs that are parked: they wait for a time or an event.
	OldestQueuedAt  *time.Time `json:"oldestQueuedAt"`
	OldestWaitingAt *time.Time `json:"oldestWaitingAt"` // Time of the oldest open interrupt.
}

// Instance is a server process that uses the database, or used it.
type Instance struct {
	ID          string    `json:"id"`                               // Identifies the process.
	Version     *string   `json:"version"`                          // Null if the process has ended or has not reported its version.
	Address     *string   `json:"address"`                          // Only shown to operators and admins.
	StartedAt   time.Time `json:"startedAt"`                        // Start time.
	HeartbeatAt time.Time `json:"heartbeatAt"`                      // Approximate time of the last heartbeat.
	Serving     bool      `json:"serving"`                          // Whether the process serves requests.
	Ended       *string   `json:"ended" enum:"left,fenced,crashed"` // How the process ended. Null while it serves.
}

// NewStats returns statistics for the server of that version; cost returns the cost of tokens.
func NewStats(s *runtime.Statistics, version string, cost func(usage []agui.TokenUsage) *float64) Stats {
	shown := Stats{
		Window: s.Window, From: stamp(s.From), To: stamp(s.To), Step: int(s.Step / time.Second),
		Buckets: make([]StatsBucket, len(s.Buckets)), Totals: totals(&s.Totals), Failures: []StatsFailure{}, Agents: []StatsAgent{},
		Now: StatsNow{
			Running: s.Running.Runs, Queued: s.Queued.Runs, Waiting: s.Waiting.Runs, Parked: s.Parked.Runs,
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
