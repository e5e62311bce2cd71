package ddns

import (
	"sync"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/coredns-ddns/ddns/hooks"
)

// The metrics of hooks. The label hook is a name of the policy file.
var (
	hookRuns = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "hook_runs_total",
		Help: "Attempts to tell a hook of an event, by result: ok, retry, dead, away, superseded, canceled.",
	}, []string{"hook", "result"})
	hookDuration = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "hook_duration_seconds",
		Help:    "Time of one attempt to run a hook.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 10), NativeHistogramBucketFactor: plugin.NativeHistogramBucketFactor,
	}, []string{"hook"})
	hookRetries = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "hook_retries_total",
		Help: "Attempts that failed and will be made again.",
	}, []string{"hook"})
	hookKilled = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "hook_killed_total",
		Help: "Runs of hooks here in which something had to be killed.",
	}, []string{"hook"})
	hookTruncated = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "hook_output_truncated_total",
		Help: "Runs of hooks here whose output was too long to keep.",
	}, []string{"hook"})
)

// hookMetrics observes dispatchers and the runner.
type hookMetrics struct{}

func (hookMetrics) Attempt(hook, result string, took time.Duration) {
	hookRuns.WithLabelValues(hook, result).Inc()
	hookDuration.WithLabelValues(hook).Observe(took.Seconds())
	if result == "retry" || result == "away" {
		hookRetries.WithLabelValues(hook).Inc()
	}
}

func (hookMetrics) RunDone(string, string, time.Duration) {} // counted by Attempt, wherever it ran
func (hookMetrics) Killed(hook string)                    { hookKilled.WithLabelValues(hook).Inc() }
func (hookMetrics) OutputTruncated(hook string)           { hookTruncated.WithLabelValues(hook).Inc() }

// watched are the dispatchers whose queues a scrape shows.
var watched struct {
	mu          sync.Mutex
	dispatchers map[*hooks.Dispatcher]bool // guarded by mu
}

func watchHooks(d *hooks.Dispatcher) {
	watched.mu.Lock()
	defer watched.mu.Unlock()
	if watched.dispatchers == nil {
		watched.dispatchers = make(map[*hooks.Dispatcher]bool)
	}
	watched.dispatchers[d] = true
}

func unwatchHooks(d *hooks.Dispatcher) {
	watched.mu.Lock()
	defer watched.mu.Unlock()
	delete(watched.dispatchers, d)
}

// queueCollector shows the queues as they are when they are asked for.
type queueCollector struct{ pending, oldest, dead *prometheus.Desc }

func init() {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, name), help, []string{"hook"}, nil)
	}
	prometheus.MustRegister(queueCollector{
		pending: desc("hook_pending", "Events that a hook has still to be told of."),
		oldest:  desc("hook_oldest_pending_seconds", "Age of the oldest of them, 0 without one."),
		dead:    desc("hook_dead_letters", "Events that were given up and wait for a person."),
	})
}

func (c queueCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.pending
	out <- c.oldest
	out <- c.dead
}

func (c queueCollector) Collect(out chan<- prometheus.Metric) {
	type sum struct {
		pending, dead int
		oldest        time.Time
	}
	sums := make(map[string]*sum) // databases may have hooks of the same name
	watched.mu.Lock()
	for d := range watched.dispatchers {
		for _, st := range d.Stats() {
			s := sums[st.Hook]
			if s == nil {
				s = &sum{}
				sums[st.Hook] = s
			}
			s.pending += st.Pending
			s.dead += st.Dead
			if !st.Oldest.IsZero() && (s.oldest.IsZero() || st.Oldest.Before(s.oldest)) {
				s.oldest = st.Oldest
			}
		}
	}
	watched.mu.Unlock()
	for hook, s := range sums {
		age := 0.0
		if !s.oldest.IsZero() {
			age = time.Since(s.oldest).Seconds()
		}
		out <- prometheus.MustNewConstMetric(c.pending, prometheus.GaugeValue, float64(s.pending), hook)
		out <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, age, hook)
		out <- prometheus.MustNewConstMetric(c.dead, prometheus.GaugeValue, float64(s.dead), hook)
	}
}
