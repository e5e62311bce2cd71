package ddns

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/coredns/coredns/plugin/transfer"
	"github.com/miekg/dns"
	"golang.org/x/sync/semaphore"

	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

var _ transfer.Transferer = (*DDNS)(nil)

// transferLimit bounds the transfers that run at once; each holds a version of
// its zone, and some hundred kilobytes, until the secondary has read it. Further
// ones are answered SERVFAIL, and secondaries come back.
const transferLimit = 64

// historyLimit bounds the records of changesets that all IXFRs together hold in
// memory. One that does not fit is sent as an AXFR, which is made from the
// version as it is read and needs none.
const historyLimit = 1 << 20

var (
	transferSlots = semaphore.NewWeighted(transferLimit)
	historyRoom   = semaphore.NewWeighted(historyLimit)
)

var errTransfers = fmt.Errorf("%d zone transfers are running, which is the most", transferLimit)

func isTransfer(qtype uint16) bool { return qtype == dns.TypeAXFR || qtype == dns.TypeIXFR }

// Transfer implements transfer.Transferer: the whole zone (RFC 5936) for serial 0,
// otherwise the changesets since serial (RFC 1995) as long as the journal has them
// and they are not more than the whole zone. What is sent is one version,
// whatever happens to the zone meanwhile.
func (d *DDNS) Transfer(name string, serial uint32) (<-chan []dns.RR, error) {
	origin, err := zone.ParseName(name)
	if err != nil {
		return nil, transfer.ErrNotAuthoritative
	}
	z := d.zones[origin]
	if z == nil {
		return nil, transfer.ErrNotAuthoritative
	}
	if !transferSlots.TryAcquire(1) {
		transfersTotal.WithLabelValues(origin.String(), "refused").Inc()
		return nil, errTransfers
	}
	t := d.difference(z, zone.Serial(serial))
	transfersTotal.WithLabelValues(origin.String(), t.kind).Inc()
	out := make(chan []dns.RR, 2)
	go func() {
		defer transferSlots.Release(1)
		defer historyRoom.Release(t.history)
		defer close(out)
		const batch = 64
		rrs := make([]dns.RR, 0, batch)
		for rr := range t.records {
			if rrs = append(rrs, rr); len(rrs) == batch {
				out <- rrs // the transfer plugin drains it, also after an error
				rrs = make([]dns.RR, 0, batch)
			}
		}
		if len(rrs) > 0 {
			out <- rrs
		}
	}()
	return out, nil
}

// outgoing is what a secondary is sent.
type outgoing struct {
	kind    string // for the metrics
	records iter.Seq[dns.RR]
	history int64 // what it has acquired of historyRoom
}

// difference chooses what brings a secondary from serial to the present.
func (d *DDNS) difference(z *zonedb.Zone, serial zone.Serial) outgoing {
	h, ok := z.Since(serial)
	v := h.Version
	switch order := v.Serial().Compare(serial); {
	case serial == 0:
		return outgoing{kind: "axfr", records: v.AXFR()}
	case order == zone.Equal || order == zone.Lower:
		// RFC 1995, section 2: a single SOA says "you are up to date".
		return outgoing{kind: "current", records: zone.IXFR(v.SOA(), nil)}
	case v.Serial() < serial && h.Last-h.After > 1:
		// It passes 2^32. NSD compares the serials on the way as plain numbers and
		// would refuse the difference again and again.
	case ok && h.Records <= uint64(v.Counts().Records) && historyRoom.TryAcquire(int64(h.Records)):
		chain, err := d.history(z, h)
		if err == nil {
			return outgoing{kind: "ixfr", records: zone.IXFR(v.SOA(), chain), history: int64(h.Records)}
		}
		historyRoom.Release(int64(h.Records))
		log.Warningf("Sending all of zone=%s instead of the changes since serial=%d: %v", z.Origin(), serial, err)
	}
	return outgoing{kind: "axfr-fallback", records: v.AXFR()}
}

// history reads the changesets of h. All of them before the first record is sent:
// the journal may be trimmed, and a transfer that has begun cannot become
// another.
func (d *DDNS) history(z *zonedb.Zone, h zonedb.History) ([]*zone.Changeset, error) {
	var chain []*zone.Changeset
	for e, err := range d.db().Journal(context.Background(), z.Origin(), h.After, h.Last) {
		if err != nil {
			return nil, err
		}
		chain = append(chain, e.Changeset)
	}
	for range zone.IXFR(h.Version.SOA(), chain) {
		if len(chain) > 0 {
			return chain, nil
		}
	}
	return nil, fmt.Errorf("the journal from position %d to %d does not lead to serial %d", h.After, h.Last, h.Version.Serial())
}

func (i *instance) db() *zonedb.DB { return i.store.Value() }

// notifyPause is the least time between two NOTIFYs for a zone: what changes
// meanwhile is announced by one.
const notifyPause = time.Second

// notifyAgain is how long after the last of them it is said once more. NOTIFY is best
// effort (RFC 1996, section 3.1), and a secondary that answered may still lose it: NSD
// forgets one without a serial, as the host's are, that comes during a transfer, and
// drops a transfer that ends while it loads others. It would be behind until the SOA's
// retry or refresh is over.
const notifyAgain = 10 * time.Second

// notifier tells the secondaries of a stanza's zones when something changed, one
// goroutine a zone, far from the write path: a secondary that does not answer
// takes seconds.
type notifier struct{ stop context.CancelFunc }

// startNotifier announces every zone once, as a primary does when it starts
// (RFC 1996, section 4.1), and from then on each change.
func (i *instance) startNotifier(t *transfer.Transfer) error {
	ctx, cancel := context.WithCancel(context.Background())
	n := &notifier{stop: cancel}
	for origin, z := range i.zones {
		changed, unsubscribe := i.db().Subscribe()
		go func() {
			defer unsubscribe()
			announce(ctx, origin, func() zone.Serial { return z.Version().Serial() }, changed, t.Notify)
		}()
	}
	i.notifier = n
	return i.generation.OnDrop(func() error { n.close(); return nil })
}

// announce runs until ctx ends. It begins with a pause: the server's own sockets are
// bound after OnStartup, and a secondary asks back at once.
func announce(ctx context.Context, origin zone.Name, current func() zone.Serial, changed <-chan struct{}, notify func(string) error) {
	var told zone.Serial
	var again <-chan time.Time // nil when told has been said twice
	var failed string          // of the last round
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(notifyPause):
		}
		serial := current()
		repeat := serial == told
		if repeat {
			select {
			case <-ctx.Done():
				return
			case <-again:
			case <-changed: // another zone may have, all the time
				select {
				case <-again:
				default:
					continue
				}
			}
		}
		told, again = serial, nil
		failure, result := "", "sent"
		if err := notify(origin.String()); err != nil {
			failure, result = strings.ReplaceAll(err.Error(), "\n", "; "), "failed"
		}
		notifiesTotal.WithLabelValues(origin.String(), result).Inc()
		// Once, not with every change while a secondary is down.
		if failure != failed && failure != "" {
			log.Warningf("Notifying the secondaries zone=%s serial=%d: %s", origin, serial, failure)
		}
		failed = failure
		if !repeat {
			again = time.After(notifyAgain)
		}
	}
}

// close ends it. It does not wait: the host's NOTIFY cannot be cut short and takes
// six seconds for each secondary that does not answer, which would hold up every
// reload; after that round the goroutine ends and has touched nothing of ours.
func (n *notifier) close() {
	if n != nil {
		n.stop()
	}
}
