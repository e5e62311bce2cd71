package ddns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/coredns/coredns/plugin/tsig"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

// updateTimeout bounds how long an UPDATE waits for the writer. Clients give up
// after a few seconds and send it again.
const updateTimeout = 5 * time.Second

// keyUpdates holds each key to the stanza's rate of updates. It belongs to the
// process, so that a reload gives nobody a fresh allowance.
var keyUpdates = newLimiter[identityKey](httpKeys)

// serveUpdate answers a DNS UPDATE (RFC 2136). One for a zone that is not ours is
// refused here and not passed on: the plugins behind us would answer it like a
// query, or forward it with our address on it.
func (d *DDNS) serveUpdate(ctx context.Context, w dns.ResponseWriter, r *dns.Msg, name zone.Name) (int, error) {
	m := new(dns.Msg)
	answer := func(rcode int, result string) (int, error) {
		origin, label := otherZone, "other"
		if d.zones[name] != nil {
			origin, label = name, name.String()
		}
		updatesTotal.WithLabelValues(label, "update", result).Inc()
		countResponse(origin, dns.OpcodeUpdate, rcode)
		m.SetRcode(r, rcode) // RFC 2136, section 3.8: the header and the zone
		if err := w.WriteMsg(m); err != nil {
			return dns.RcodeServerFailure, err
		}
		return rcode, nil
	}
	if d.zones[name] == nil {
		return answer(dns.RcodeNotAuth, zone.CodeNotAuth) // RFC 2136, section 3.1.2
	}
	sig, ok := verified(ctx)
	if !ok {
		if sig != nil { // front has logged it without one
			d.warnRefused(w, name, "its key %s was not verified: the tsig plugin of this server block must cover the zone", sig.key())
		}
		return answer(dns.RcodeRefused, "refused")
	}
	now := time.Now()
	if sig.skew(now) > maxSkew {
		authFailures.WithLabelValues("tsig").Inc()
		d.warnRefused(w, name, "key %s: %s", sig.key(), sig.clocks(now))
		sig.refuseTime(w, r, m, now)
		return answer(dns.RcodeNotAuth, "refused")
	}
	switch rcode, seen := replays.begin(sig, now); seen {
	case replayed:
		authFailures.WithLabelValues("replay").Inc()
		d.warnRefused(w, name, "key %s: the same signed message was here before", sig.key())
		return answer(dns.RcodeRefused, "replayed")
	case retransmitted:
		return answer(rcode, "retransmitted")
	case inProgress:
		return dns.RcodeSuccess, nil // the first copy will be answered
	}
	return answer(d.updateOnce(ctx, sig, w, r, name))
}

// warnRefused logs a refusal that somebody will ask about.
func (d *DDNS) warnRefused(w dns.ResponseWriter, name zone.Name, format string, args ...any) {
	warnUpdate.Do(func() {
		log.Warningf("Refused an UPDATE zone=%s peer=%s: %s", name, w.RemoteAddr(), fmt.Sprintf(format, args...))
	})
}

// verified is a message's signature, if it has one, and whether the tsig plugin
// has verified it. That counts, not the absence of an error: an unsigned message
// has none either, and a message over UDP that was cut off between two records is
// a valid, unsigned prefix of itself.
func verified(ctx context.Context) (*signature, bool) {
	sig, _ := ctx.Value(signatureKey{}).(*signature)
	_, ok := tsig.ValidatedKeyName(ctx)
	return sig, ok && sig != nil && sig.status == nil
}

// updateOnce decides on a message that is here for the first time, and notes the
// answer before it is sent, for the case that it is lost.
func (d *DDNS) updateOnce(ctx context.Context, sig *signature, w dns.ResponseWriter, r *dns.Msg, name zone.Name) (rcode int, result string) {
	rcode = dns.RcodeServerFailure // should update panic
	defer func() { replays.end(sig, rcode) }()
	return d.update(ctx, w, r, name)
}

// update decides on one verified message. result is a word for the metrics.
func (d *DDNS) update(ctx context.Context, w dns.ResponseWriter, r *dns.Msg, name zone.Name) (rcode int, result string) {
	if d.over.Load() {
		// A listener of the host that a reload did not end: what is decided by the
		// old policy no longer counts.
		return dns.RcodeServerFailure, "stopping"
	}
	who, err := d.updater(ctx, request.Request{W: w, Req: r})
	if err != nil {
		d.warnRefused(w, name, "%v", err)
		return dns.RcodeRefused, "refused"
	}
	if wait := keyUpdates.take(identityKey{zone: d.cfg.zones[0], id: who.ID}, d.cfg.limits.update, time.Now()); wait > 0 {
		d.warnRefused(w, name, "key %s has reached its rate of updates: the next one may come in %.0fs", who.ID, wait.Seconds()+0.5)
		return dns.RcodeRefused, "rate"
	}
	u, err := zone.ParseUpdate(r, name)
	if err == nil {
		err = d.refuseForChild(name, &u)
	}
	if err == nil {
		d.cfg.ttl.bound(&u)
		u.Permission, u.Limits = who, d.cfg.zoneLimits()
		u.Cause = zone.Cause{Source: "update", Actor: who.ID, Unix: time.Now().Unix()}

		wait, cancel := context.WithTimeout(ctx, updateTimeout)
		defer cancel()
		var res zonedb.Result
		if res, err = d.zones[name].Update(wait, u); err == nil {
			if !res.Changed {
				return dns.RcodeSuccess, "unchanged"
			}
			logChange(name, res.Changeset)
			return dns.RcodeSuccess, "changed"
		}
	}
	rcode, result = refusal(err)
	if result == zone.CodePrerequisite {
		// How DHCP servers find out whose a name is, at every renewal.
		log.Debugf("Not updated zone=%s by=%s rcode=%s: %v", name, who.ID, dns.RcodeToString[rcode], err)
	} else {
		d.warnRefused(w, name, "key %s, rcode %s: %v", who.ID, dns.RcodeToString[rcode], err)
	}
	return rcode, result
}

// updater is who signed an UPDATE, if the policy knows them here and now.
func (d *DDNS) updater(ctx context.Context, state request.Request) (*policy.Identity, error) {
	key, _ := tsig.ValidatedKeyName(ctx)
	keyName, err := zone.ParseName(key)
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", key, err)
	}
	who, ok := d.policy.Load().Key(keyName)
	if !ok {
		return nil, fmt.Errorf("the policy file has no key %s", keyName)
	}
	peer, err := netip.ParseAddr(state.IP())
	if err != nil {
		return nil, fmt.Errorf("peer %q is no address", state.IP())
	}
	return who, who.Admits(peer.WithZone("").Unmap(), time.Now())
}

// refusal maps an error to what a DNS client is told and a word for metrics.
func refusal(err error) (rcode int, result string) {
	var e *zone.Error
	switch {
	case errors.As(err, &e):
		return e.Rcode, e.Code
	case errors.Is(err, zonedb.ErrStopped):
		return dns.RcodeServerFailure, "stopping"
	case errors.Is(err, zonedb.ErrBusy), errors.Is(err, context.DeadlineExceeded):
		return dns.RcodeServerFailure, "busy"
	default:
		return dns.RcodeServerFailure, "unavailable"
	}
}

// bound brings the TTLs of the records to be added to what the stanza allows.
func (t ttlConfig) bound(u *zone.Update) {
	for i := range u.Operations {
		if op := &u.Operations[i]; op.Kind == zone.AddRecords && op.Type != dns.TypeSOA {
			op.RRset.TTL = min(max(op.RRset.TTL, t.least), t.most)
		}
	}
}
