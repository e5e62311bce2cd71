package ddns

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metrics"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"
	xrate "golang.org/x/time/rate"
)

// front stands at the very start of the chain, before the plugins that would hide
// what we need or want mending: tsig answers what it cannot verify without a word
// in the log and strips the TSIG record of the rest, transfer waits without end for
// a secondary that does not read, and dnssec denies types that exist.
type front struct {
	Next     plugin.Handler
	instance *instance
}

var _ plugin.Handler = (*front)(nil)

// Name implements plugin.Handler. It is no directive, so other plugins do not
// find it.
func (f *front) Name() string { return pluginName + "_front" }

// ServeDNS implements plugin.Handler.
func (f *front) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if r.Opcode == dns.OpcodeUpdate {
		if t := r.IsTsig(); t != nil && t.Hdr.Class != dns.ClassANY {
			// RFC 8945, section 4.2 wants ANY, and the MAC covers that, not what the
			// message says: so whoever changed it on the way would go unnoticed.
			return dns.RcodeFormatError, nil
		}
		s := newSignature(r, w)
		if s == nil {
			warnUnsigned(w, r)
		} else {
			if s.status != nil {
				s.explain()
			}
			ctx = context.WithValue(ctx, signatureKey{}, s)
		}
	} else if len(r.Question) == 1 && isTransfer(r.Question[0].Qtype) {
		w = &transferWriter{ResponseWriter: w}
	} else if f.instance.signer != nil {
		if o := r.IsEdns0(); o != nil && o.Do() {
			w = &denialWriter{ResponseWriter: w, instance: f.instance, server: metrics.WithServer(ctx)}
		}
	}
	// Not NextOrFailure: every query passes here, and next is never nil.
	return f.Next.ServeDNS(ctx, w, r)
}

// warnUpdate keeps a client that is refused again and again from filling the log.
var warnUpdate = xrate.Sometimes{First: 20, Interval: time.Second}

// warnUnsigned logs an UPDATE that whoever answers it will refuse: we, or the tsig
// plugin without a word.
func warnUnsigned(w dns.ResponseWriter, r *dns.Msg) {
	zone := ""
	if len(r.Question) == 1 {
		zone = r.Question[0].Name
	}
	authFailures.WithLabelValues("unsigned").Inc()
	warnUpdate.Do(func() {
		log.Warningf("Refused an UPDATE zone=%q peer=%s: it has no TSIG: sign it with a key of the tsig plugin; a message of more than 512 octets needs TCP", zone, w.RemoteAddr())
	})
}

// maxSkew is how far a signature's time may be from ours, whatever fudge the
// client asks for. It is the fudge that RFC 8945, section 10 recommends; a larger
// one would outlive the memory of replays.
const maxSkew = 300 * time.Second

// signatureKey is the context's key for *signature.
type signatureKey struct{}

// signature is what a signed message came with.
type signature struct {
	id     replayID
	sender uint64 // the socket and the message's own id, hashed
	tsig   dns.TSIG
	status error // nil: verified with a secret of this listener
	peer   string
}

// newSignature is nil for an unsigned message.
func newSignature(r *dns.Msg, w dns.ResponseWriter) *signature {
	t := r.IsTsig()
	if t == nil {
		return nil
	}
	s := &signature{tsig: *t, status: w.TsigStatus(), peer: w.RemoteAddr().String()}
	mac := sha256.Sum256([]byte(dns.CanonicalName(t.Hdr.Name) + " " + strings.ToLower(t.MAC)))
	copy(s.id[:], mac[:])
	sender := sha256.Sum256(binary.BigEndian.AppendUint16([]byte(s.peer), r.Id))
	s.sender = binary.BigEndian.Uint64(sender[:])
	return s
}

// key is the key's name as the client wrote it.
func (s *signature) key() string { return s.tsig.Hdr.Name }

// skew is how far the signature's time is from now.
func (s *signature) skew(now time.Time) time.Duration {
	return now.Sub(time.Unix(int64(s.tsig.TimeSigned), 0)).Abs() // 48 bits
}

// refuseTime makes m the answer to a message that was signed too long ago: it
// carries the server's time (RFC 8945, section 5.2.3).
func (s *signature) refuseTime(w dns.ResponseWriter, r, m *dns.Msg, now time.Time) {
	// In front of the TSIG, which must come last; CoreDNS would append it.
	state := request.Request{W: w, Req: r}
	state.SizeAndDo(m)
	m.Extra = append(m.Extra, &dns.TSIG{
		Hdr:       dns.RR_Header{Name: s.key(), Rrtype: dns.TypeTSIG, Class: dns.ClassANY},
		Algorithm: s.tsig.Algorithm, TimeSigned: s.tsig.TimeSigned, Fudge: s.tsig.Fudge, OrigId: r.Id,
		Error: dns.RcodeBadTime, OtherLen: 6, OtherData: fmt.Sprintf("%012x", now.Unix()),
	})
}

// explain logs why a signed UPDATE is not accepted, in the words of whoever has
// to mend it.
func (s *signature) explain() {
	authFailures.WithLabelValues("tsig").Inc()
	warnUpdate.Do(func() {
		key, algorithm := s.key(), dns.CanonicalName(s.tsig.Algorithm)
		why := ""
		switch {
		case algorithm == dns.HmacMD5:
			why = "the client uses HMAC-MD5, which is not supported: set the client's key to hmac-sha256"
		case errors.Is(s.status, dns.ErrKeyAlg):
			why = fmt.Sprintf("algorithm %q is not supported: use hmac-sha256", algorithm)
		case errors.Is(s.status, dns.ErrSecret) && key != strings.ToLower(key):
			why = "unknown key; the client must write the key's name in lower case"
		case errors.Is(s.status, dns.ErrSecret):
			why = "no tsig plugin of this listener has such a key"
		case errors.Is(s.status, dns.ErrTime):
			why = s.clocks(time.Now())
		default:
			why = fmt.Sprintf("%v: the secrets differ or the message was changed on its way", s.status)
		}
		log.Warningf("Refused a TSIG key=%q peer=%s: %s", key, s.peer, why)
	})
}

// clocks says what is wrong with the time of a signature.
func (s *signature) clocks(now time.Time) string {
	return fmt.Sprintf("signed at %d, now is %d: the clocks are more than %ds apart",
		s.tsig.TimeSigned, now.Unix(), min(int(s.tsig.Fudge), int(maxSkew/time.Second)))
}
