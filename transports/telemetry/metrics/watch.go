package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/stream"
)

// Watch adds the gauges of a server, read at each scrape. Call it once.
func (m *Metrics) Watch(engine func() runtime.Stats, streams func() stream.Stats, held func() int64, unwell func() map[string]string) {
	m.own.add(&watch{engine, streams, held, unwell})
}

// watch holds the sources of the gauges.
type watch struct {
	engine  func() runtime.Stats
	streams func() stream.Stats
	held    func() int64
	unwell  func() map[string]string
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

var (
	runs        = describe("runs", "Open runs, by status.", "status")
	queueAge    = describe("queue_age_seconds", "For how long the first of the runs that wait for a slot has been queued.")
	waits       = describe("commit_queue_items", "What waits for a commit: of each run what it has said, and commands.")
	waitBytes   = describe("commit_queue_bytes", "Bytes of events that wait for a commit.")
	waitAge     = describe("commit_queue_age_seconds", "For how long the oldest of what waits for a commit has at least.")
	fenced      = describe("fenced_writes_total", "Commits that were refused because another server has the database.")
	repaired    = describe("queue_repaired_total", "Threads whose rows in the queue were wrong: a defect.")
	hintsSent   = describe("hint_datagrams_total", "Datagrams that this server of a cluster has sent to the others.")
	hintsLost   = describe("hint_failures_total", "Failures to send or to receive datagrams: hints may have been lost.")
	hintsDeaf   = describe("hints_deaf", "1 while other servers of the cluster live and no datagrams arrive.")
	clientBytes = describe("client_bytes", "Bytes of requests, messages and answers that are held for clients.")
	runBytes    = describe("run_bytes", "Bytes in memory of what runs at work are asked and have said, by kind (asked, said).", "kind")
	ringBytes   = describe("ring_bytes", "Bytes in memory of the latest events of threads.")
	lag         = describe("retention_lag_seconds", "For how long the runs that the retention removes now should have been gone; 0 while nothing is due.")
	abandoned   = describe("abandoned_total", "Workers and tools that ignored that they were to stop, by kind (agent, tool).", "kind")
	lingering   = describe("abandoned", "Abandoned workers and tools that have not returned; each keeps its run's slot.")
	openStreams = describe("streams", "Open event streams, by kind (sse, websocket).", "kind")
	unwell      = describe("plugin_unwell", "1 for each plugin whose program, server or model fails.", "plugin")
	cut         = describe("readers_cut_total", "Readers that were cut off because they took nothing any more.")
)

// Describe implements prometheus.Collector.
func (w *watch) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{runs, queueAge, waits, waitBytes, waitAge, fenced, repaired, clientBytes, runBytes, ringBytes, lag, abandoned, lingering, openStreams, unwell, cut, hintsSent, hintsLost, hintsDeaf} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (w *watch) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	e := w.engine()
	gauge(runs, float64(e.Queued), "queued")
	gauge(runs, float64(e.Running), "running")
	gauge(runs, float64(e.Waiting), "waiting")
	gauge(runs, float64(e.Parked), "parked")
	gauge(queueAge, e.OldestQueued.Seconds())
	gauge(waits, float64(e.Commits.Items))
	gauge(waitBytes, float64(e.Commits.Bytes))
	gauge(waitAge, e.Commits.Age.Seconds())
	counter(fenced, e.Fenced)
	counter(repaired, e.Repaired)
	counter(hintsSent, e.Link.Sent)
	counter(hintsLost, e.Link.Lost)
	deaf := 0.0
	if e.Link.Deaf {
		deaf = 1
	}
	gauge(hintsDeaf, deaf)
	gauge(clientBytes, float64(w.held()))
	gauge(runBytes, float64(e.Asked), "asked")
	gauge(runBytes, float64(e.Said), "said")
	gauge(ringBytes, float64(e.Rings))
	gauge(lag, e.RetentionLag.Seconds())
	counter(abandoned, e.AbandonedAgents, "agent")
	counter(abandoned, e.AbandonedTools, "tool")
	gauge(lingering, float64(e.Lingering))
	s := w.streams()
	gauge(openStreams, float64(s.Streams), "sse")
	gauge(openStreams, float64(s.Sockets), "websocket")
	counter(cut, s.Cut)
	for name := range w.unwell() {
		gauge(unwell, 1, name)
	}
}
