// Package metrics exports the server's metrics in Prometheus's text format. docs/operations.md lists names and labels. Clients
// cannot create label values: routes are mounted patterns, and the numbers of providers and models are limited.
//
// Gauges are read at each scrape; only the histograms of sizes and times count as events happen.
package metrics

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Metrics are the metrics of one server.
type Metrics struct {
	registry *prometheus.Registry
	own      collection // of registry, without those of Go and of the process

	firstEvent, queued, commit, events, replayed prometheus.Histogram
	ended, tool, model, request                  *prometheus.HistogramVec
	tokens, requests                             *prometheus.CounterVec

	models names
}

// Buckets: of times in seconds, and of counts.
var (
	short  = prometheus.ExponentialBuckets(0.0005, 2, 16) // to 16 s
	long   = prometheus.ExponentialBuckets(0.05, 3, 12)   // to 2.5 h
	counts = prometheus.ExponentialBuckets(1, 2, 12)      // to 2 048
)

// New returns metrics of which nothing is counted yet.
func New(version string) *Metrics {
	m := &Metrics{
		registry:   prometheus.NewRegistry(),
		firstEvent: histogram("run_first_event_seconds", "From a run's being queued until the first text, reasoning or tool call of its worker is stored and shown.", short),
		queued:     histogram("run_queue_seconds", "From a run's being queued until it is claimed.", short),
		commit:     histogram("commit_duration_seconds", "One transaction of the commit queue.", short),
		events:     histogram("commit_batch_events", "Events that one transaction writes.", counts),
		replayed:   histogram("replay_events", "Events that a reader got from the database before it was at the live end, or left.", prometheus.ExponentialBuckets(1, 4, 12)),
		ended:      histograms("run_duration_seconds", "From a run's being accepted until it is over, by status.", long, "status"),
		tool:       histograms("tool_call_duration_seconds", "Calls of the server's tools, by outcome (success, failure).", long, "outcome"),
		model:      histograms("provider_call_duration_seconds", "Calls of language models, by outcome (success, failure).", long, "provider", "model", "outcome"),
		request:    histograms("http_request_duration_seconds", "Requests until their handler has returned, which that of a stream does at once, by route.", prometheus.ExponentialBuckets(0.001, 4, 8), "route"),
		requests:   counters("http_requests_total", "Requests that were answered.", "method", "route", "status"),
		tokens:     counters("tokens_total", "Tokens that calls of models took, by kind (input, output, cached_input, reasoning); the last two are parts of the first two.", "provider", "model", "kind"),
		models:     names{seen: map[[2]string]bool{}},
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "baton_build_info", Help: "1, with the version of this server.", ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	m.own.add(m.firstEvent, m.queued, m.commit, m.events, m.replayed, m.ended, m.tool, m.model, m.request, m.requests, m.tokens, build)
	m.registry.MustRegister(
		&m.own, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

const namespace = "baton"

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

// Collector collects the metrics for another registry, without those of Go and of the process.
func (m *Metrics) Collector() prometheus.Collector { return &m.own }

// collection is several collectors as one. It describes none, because those of a server that has not started are not known yet.
type collection struct {
	mu  sync.Mutex // guards the field below
	all []prometheus.Collector
}

func (c *collection) add(more ...prometheus.Collector) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, more...)
}

// Describe implements prometheus.Collector.
func (c *collection) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collection) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	all := slices.Clone(c.all)
	c.mu.Unlock()
	for _, one := range all {
		one.Collect(ch)
	}
}

// Handler answers with the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Measures are the runtime's callbacks.
func (m *Metrics) Measures() runtime.Measures {
	return runtime.Measures{
		Committed: func(events int, took time.Duration) {
			m.events.Observe(float64(events))
			m.commit.Observe(took.Seconds())
		},
		Replayed:   func(events int) { m.replayed.Observe(float64(events)) },
		Claimed:    func(queued time.Duration) { m.queued.Observe(queued.Seconds()) },
		FirstEvent: func(after time.Duration) { m.firstEvent.Observe(after.Seconds()) },
		Ended: func(status runtime.Status, took time.Duration) {
			m.ended.WithLabelValues(strings.ToLower(string(status))).Observe(took.Seconds())
		},
		Tool: func(failed bool, took time.Duration) {
			m.tool.WithLabelValues(outcome(failed)).Observe(took.Seconds())
		},
		ModelCall: func(c runtime.ModelEnd, took time.Duration) {
			provider, model := m.models.of(c.Usage.Provider, c.Usage.Model)
			m.model.WithLabelValues(provider, model, outcome(c.Err != nil)).Observe(took.Seconds())
		},
		Tokens: m.spent,
	}
}

func outcome(failed bool) string {
	if failed {
		return "failure"
	}
	return "success"
}

// spent counts tokens.
func (m *Metrics) spent(u agui.TokenUsage) {
	provider, model := m.models.of(u.Provider, u.Model)
	for kind, n := range map[string]int64{
		"input": u.InputTokens, "output": u.OutputTokens, "cached_input": u.CachedInputTokens, "reasoning": u.ReasoningTokens,
	} {
		if n > 0 {
			m.tokens.WithLabelValues(provider, model, kind).Add(float64(n))
		}
	}
}

// Request counts an answered request. The route is its pattern, empty for none.
func (m *Metrics) Request(method, route string, status int, took time.Duration) {
	if route == "" {
		route = "none"
	}
	m.requests.WithLabelValues(methodOf(method), route, strconv.Itoa(status)).Inc()
	m.request.WithLabelValues(route).Observe(took.Seconds())
}

// methodOf is a method, if it is one that any route has.
func methodOf(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}
