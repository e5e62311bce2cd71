package ddns

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// otherZone stands for every name that is not one of our zones: a name that a
// client chose is no label.
const otherZone zone.Name = ""

// responseCounters are the counters of one zone. Looking a counter up by its labels
// costs more than everything else that a query needs, so they are kept.
type responseCounters struct {
	zone     string
	counters [16][24]atomic.Pointer[prometheus.Counter] // by opcode and rcode
}

// counted are the zones that were ever asked for, few; replaced whole, under
// countedMu.
var (
	counted   atomic.Pointer[map[zone.Name]*responseCounters]
	countedMu sync.Mutex
)

// countResponse counts an answer of ours about one of our zones, or otherZone.
func countResponse(origin zone.Name, opcode, rcode int) {
	var c *responseCounters
	if m := counted.Load(); m != nil {
		c = (*m)[origin]
	}
	if c == nil {
		c = countZone(origin)
	}
	if rcode >= len(c.counters[0]) {
		rcode = dns.RcodeServerFailure
	}
	p := &c.counters[opcode&0xf][rcode]
	counter := p.Load()
	if counter == nil {
		made := responsesTotal.WithLabelValues(c.zone, dns.OpcodeToString[opcode&0xf], dns.RcodeToString[rcode])
		counter = &made
		p.Store(counter)
	}
	(*counter).Inc()
}

func countZone(origin zone.Name) *responseCounters {
	countedMu.Lock()
	defer countedMu.Unlock()
	m := make(map[zone.Name]*responseCounters)
	if old := counted.Load(); old != nil {
		maps.Copy(m, *old)
	}
	if m[origin] == nil {
		c := &responseCounters{zone: "other"}
		if origin != otherZone {
			c.zone = origin.String()
		}
		m[origin] = c
		counted.Store(&m)
	}
	return m[origin]
}
