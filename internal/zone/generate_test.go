package zone_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// generatedZone is a zone made up from a seed: few labels, so that owners, targets
// and questions meet.
type generatedZone struct {
	text   string
	owners []string
}

const oracleOrigin = "example.org."

var oracleLabels = []string{"a", "b", "c", "d", "e", "*"}

func generateZone(seed uint64) generatedZone {
	rng := rand.New(rand.NewPCG(seed, 42))
	name := func(depth int) string {
		n := oracleOrigin
		for range depth {
			n = oracleLabels[rng.IntN(len(oracleLabels))] + "." + n
		}
		return n
	}
	target := func() string {
		switch rng.IntN(8) {
		case 0:
			return "out.example.net."
		case 1:
			return oracleOrigin
		default:
			return name(1 + rng.IntN(3))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "$ORIGIN %s\n$TTL 300\n@ 3600 IN SOA ns hostmaster 1 7200 900 1209600 60\n@ NS a\n", oracleOrigin)
	if rng.IntN(2) == 0 {
		fmt.Fprintf(&b, "@ NS %s\n", target())
	}
	if rng.IntN(3) == 0 {
		fmt.Fprintf(&b, "@ MX 10 %s\n@ A 192.0.2.99\n", target())
	}
	if rng.IntN(25) == 0 {
		fmt.Fprintf(&b, "@ DNAME %s\n", target())
	}
	owners := []string{oracleOrigin}
	for range 2 + rng.IntN(15) {
		owner := name(1 + rng.IntN(4))
		if slices.Contains(owners, owner) {
			continue
		}
		owners = append(owners, owner)
		put := func(format string, args ...any) {
			fmt.Fprintf(&b, "%s %s\n", owner, fmt.Sprintf(format, args...))
		}
		switch rng.IntN(12) {
		case 0, 1:
			put("CNAME %s", target())
		case 2:
			put("DNAME %s", target())
			if rng.IntN(2) == 0 {
				put("A 192.0.2.%d", rng.IntN(256))
			}
		case 3, 4:
			if strings.HasPrefix(owner, "*") && rng.IntN(4) > 0 {
				put("TXT wildcard")
				break
			}
			for range 1 + rng.IntN(2) {
				put("NS %s", target())
			}
			if rng.IntN(2) == 0 {
				put("DS 1 8 2 0102")
			}
			if rng.IntN(3) == 0 { // hidden
				put("TXT hidden")
			}
		case 5:
			put("MX 10 %s", target())
			put("MX 20 %s", target())
		case 6:
			put("SRV 0 0 80 %s", target())
			put("SRV 1 0 80 %s", target())
		case 7:
			put("HTTPS 1 . alpn=h2")
			put("A 192.0.2.%d", rng.IntN(256))
		default:
			for range 1 + rng.IntN(3) {
				put("A 192.0.2.%d", rng.IntN(256))
			}
			if rng.IntN(2) == 0 {
				put("AAAA 2001:db8::%d", rng.IntN(256))
			}
			if rng.IntN(3) == 0 {
				put("TXT text")
			}
		}
	}
	return generatedZone{b.String(), owners}
}

// questions are the names at, above, below and beside every owner.
func (g generatedZone) questions() []string {
	var names []string
	add := func(n string) {
		if dns.IsSubDomain(oracleOrigin, n) && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	for _, o := range g.owners {
		add(o)
		for _, l := range []string{"a", "x", "*"} {
			add(l + "." + o)
		}
		add("x.a." + o)
		for n := o; n != oracleOrigin; {
			_, n, _ = strings.Cut(n, ".")
			add(n)
			add("x." + n)
			add("b." + n)
			add("*." + n)
		}
	}
	return names
}

var oracleTypes = []uint16{
	dns.TypeA, dns.TypeAAAA, dns.TypeTXT, dns.TypeMX, dns.TypeSRV, dns.TypeHTTPS, dns.TypeNS, dns.TypeDS,
	dns.TypeCNAME, dns.TypeDNAME, dns.TypeSOA, dns.TypeANY, dns.TypeRRSIG, dns.TypeNSEC, 65280,
}
