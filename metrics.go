package ddns

import (
	"strconv"
	"sync"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

// Every metric of the plugin. Labels are bounded by the configuration: no name
// that a client chose, no address, no token. The README lists the same.
var (
	updatesTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "updates_total",
		Help: "Updates by zone, protocol and result: changed, unchanged, or why not.",
	}, []string{"zone", "protocol", "result"})
	commitDuration = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "commit_duration_seconds",
		Help:    "Time of one durable transaction.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16), NativeHistogramBucketFactor: plugin.NativeHistogramBucketFactor,
	}, []string{"store"})
	commitUpdates = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "commit_updates",
		Help:    "Updates that shared one transaction.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 10),
	}, []string{"store"})
	commitErrors = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "commit_errors_total",
		Help: "Transactions that the store did not confirm.",
	}, []string{"store"})
	storeWritable = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "store_writable",
		Help: "1 while every open store of the kind takes updates, 0 while one recovers or none is open.",
	}, []string{"store"})
	zoneSerial = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "zone_serial",
		Help: "SOA serial of the zone.",
	}, []string{"zone"})
	zoneRecords = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "zone_records",
		Help: "Records in the zone.",
	}, []string{"zone"})
	zoneNames = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "zone_names",
		Help: "Owner names in the zone.",
	}, []string{"zone"})
	journalChangesets = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "journal_changesets",
		Help: "Changesets kept in the zone's journal.",
	}, []string{"zone"})
	httpRequests = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "http_requests_total",
		Help: "HTTP requests by route and status code.",
	}, []string{"route", "code"})
	httpDuration = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "http_request_duration_seconds",
		Help:    "Time to answer an HTTP request.",
		Buckets: plugin.TimeBuckets, NativeHistogramBucketFactor: plugin.NativeHistogramBucketFactor,
	}, []string{"route"})
	authFailures = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "auth_failures_total",
		Help: "Requests refused for their credential, by reason.",
	}, []string{"reason"})
	responsesTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "responses_total",
		Help: "Answers about our zones by opcode and RCODE.",
	}, []string{"zone", "opcode", "rcode"})
	transfersTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "transfers_total",
		Help: "Zone transfers by kind: axfr, ixfr, axfr-fallback, current, or refused for their number.",
	}, []string{"zone", "kind"})
	notifiesTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "notifies_total",
		Help: "Rounds of NOTIFY to the secondaries of a zone, by result: sent or failed.",
	}, []string{"zone", "result"})
	reloadsTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "reloads_total",
		Help: "Calls of /reload that were allowed, by result; unmerged: a reload of the Corefile whose zone files could not be merged.",
	}, []string{"result"})
)

// storeObserver reports what the writer of one store does.
type storeObserver struct{ kind string }

// observed is what the stores of the process have reported last. Around a reload
// that changes the store two are open, and one of them closes after the
// other has opened.
var observed struct {
	mu     sync.Mutex
	states map[*storeObserver]zonedb.State // guarded by mu; of those that are open
	zones  map[zone.Name]*storeObserver    // guarded by mu; who has each zone
}

func (o *storeObserver) Committed(took time.Duration, updates int, err error) {
	commitDuration.WithLabelValues(o.kind).Observe(took.Seconds())
	commitUpdates.WithLabelValues(o.kind).Observe(float64(updates))
	if err != nil {
		commitErrors.WithLabelValues(o.kind).Inc()
	}
}

// zoneGauges show the state of one zone each.
var zoneGauges = []*prometheus.GaugeVec{zoneSerial, zoneRecords, zoneNames, journalChangesets}

func (o *storeObserver) Published(origin zone.Name, v *zone.Version, journal int) {
	observed.mu.Lock()
	defer observed.mu.Unlock()
	if observed.zones == nil {
		observed.zones = make(map[zone.Name]*storeObserver)
	}
	observed.zones[origin] = o
	z, counts := origin.String(), v.Counts()
	zoneSerial.WithLabelValues(z).Set(float64(v.Serial()))
	zoneRecords.WithLabelValues(z).Set(float64(counts.Records))
	zoneNames.WithLabelValues(z).Set(float64(counts.Names))
	journalChangesets.WithLabelValues(z).Set(float64(journal))
}

// Withdrawn removes what would look like a zone that never changes any more.
func (o *storeObserver) Withdrawn(origin zone.Name) {
	observed.mu.Lock()
	defer observed.mu.Unlock()
	if observed.zones[origin] != o {
		return // another store has it now
	}
	delete(observed.zones, origin)
	for _, g := range zoneGauges {
		g.DeleteLabelValues(origin.String())
	}
}

// StateChanged shows 1 while every open store of the kind takes updates.
func (o *storeObserver) StateChanged(s zonedb.State) {
	observed.mu.Lock()
	defer observed.mu.Unlock()
	if observed.states == nil {
		observed.states = make(map[*storeObserver]zonedb.State)
	}
	observed.states[o] = s
	if s == zonedb.Stopped {
		delete(observed.states, o)
	}
	open, writable := 0, 0
	for other, state := range observed.states {
		if other.kind == o.kind {
			open++
			if state == zonedb.Writable {
				writable++
			}
		}
	}
	if open > 0 && writable == open {
		storeWritable.WithLabelValues(o.kind).Set(1)
		return
	}
	storeWritable.WithLabelValues(o.kind).Set(0)
}

// httpMetrics is the HTTP side's observer.
type httpMetrics struct{}

func (httpMetrics) Request(route string, code int, took time.Duration) {
	httpRequests.WithLabelValues(route, strconv.Itoa(code)).Inc()
	httpDuration.WithLabelValues(route).Observe(took.Seconds())
}

func (httpMetrics) AuthFailure(reason string) { authFailures.WithLabelValues(reason).Inc() }

func (httpMetrics) Update(zone, result string) {
	updatesTotal.WithLabelValues(zone, "http", result).Inc()
}
