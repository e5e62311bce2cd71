package ddns_test

import (
	"context"
	"slices"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
)

// vandal is a plugin directly in front of ddns that does with an answer everything
// that the rules of plugins allow, and the worst of it: it passes on a copy and
// scribbles over each record, and over the room behind the last.
type vandal struct{ next plugin.Handler }

func init() {
	at := slices.Index(dnsserver.Directives, "dynupdate")
	if err := dnsserver.SetDirectives(slices.Insert(slices.Clone(dnsserver.Directives), at, "vandal")); err != nil {
		panic(err)
	}
	plugin.Register("vandal", func(c *caddy.Controller) error {
		dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler { return vandal{next} })
		return nil
	})
}

func (v vandal) Name() string { return "vandal" }

func (v vandal) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	return v.next.ServeDNS(ctx, vandalWriter{w}, r)
}

type vandalWriter struct{ dns.ResponseWriter }

func (w vandalWriter) WriteMsg(m *dns.Msg) error {
	err := w.ResponseWriter.WriteMsg(m.Copy())
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			scribble(rr)
		}
		section = section[:cap(section)]
		for i := range section {
			section[i] = &dns.TXT{Hdr: dns.RR_Header{Name: "vandal.", Rrtype: dns.TypeTXT, Class: dns.ClassINET}}
		}
	}
	return err
}

func scribble(rr dns.RR) {
	*rr.Header() = dns.RR_Header{Name: "vandal.", Rrtype: dns.TypeTXT, Class: dns.ClassCHAOS, Ttl: 666}
	switch r := rr.(type) {
	case *dns.A:
		clear(r.A)
	case *dns.AAAA:
		clear(r.AAAA)
	case *dns.TXT:
		for i := range r.Txt {
			r.Txt[i] = "vandal"
		}
	case *dns.SOA:
		r.Ns, r.Mbox, r.Serial, r.Minttl = "vandal.", "vandal.", 0, 666
	case *dns.NS:
		r.Ns = "vandal."
	case *dns.MX:
		r.Mx, r.Preference = "vandal.", 666
	case *dns.CNAME:
		r.Target = "vandal."
	case *dns.DNAME:
		r.Target = "vandal."
	case *dns.SRV:
		r.Target, r.Port = "vandal.", 666
	}
}
