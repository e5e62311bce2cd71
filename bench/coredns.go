package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/policy"
)

// peer is a server that is compared.
type peer struct {
	name      string
	durable   string // what it does before it says yes
	noData    bool   // answers without looking anything up, or answers no DNS
	missRcode int    // for a name that does not exist
	most      int    // hosts it can take; 0: no bound
	prepare   func(b *bench, dir string, n int) (*launch, error)
	version   func(b *bench) string
}

const ddnsDurable = "write-ahead log, one fdatasync before the yes; moved to bolt within a second"

// The CoreDNS peers are plugins of the binary that has ddns: the same host, the
// same Go, the same flags.
var (
	ddns = &peer{name: "ddns", missRcode: dns.RcodeNameError, prepare: prepareDDNS, version: (*bench).coreDNSVersion,
		durable: ddnsDurable}
	ddnsBare = &peer{name: "ddns-bare", missRcode: dns.RcodeNameError, prepare: prepareBare, version: (*bench).coreDNSVersion,
		durable: "takes no updates: a stanza without policy, tsig and transfer"}
	// The garbage collector is a fifth of what an update costs. This one may use
	// more memory before it collects.
	ddnsRoomy = &peer{name: "ddns-gogc400", missRcode: dns.RcodeNameError, version: (*bench).coreDNSVersion, durable: ddnsDurable,
		prepare: func(b *bench, dir string, n int) (*launch, error) {
			l, err := prepareDDNS(b, dir, n)
			if err == nil {
				l.argv = append([]string{"env", "GOGC=400"}, l.argv...)
			}
			return l, err
		}}
	// The operator's own records, which no update may change.
	ddnsFile = &peer{name: "ddns-file", missRcode: dns.RcodeNameError, version: (*bench).coreDNSVersion, durable: "takes no updates: the zone file is merged into its database",
		prepare: corefilePeer(func(b *bench, n int) (string, error) {
			f, err := b.zoneFile(n)
			return "ddns {\n file " + f + "\n store bolt ddns.db\n http off\n}", err
		})}
	whoami = &peer{name: "whoami", noData: true, prepare: corefilePeer(func(*bench, int) (string, error) { return "whoami", nil }), version: (*bench).coreDNSVersion}
	hosts  = &peer{name: "hosts", missRcode: dns.RcodeServerFailure, version: (*bench).coreDNSVersion,
		prepare: corefilePeer(func(b *bench, n int) (string, error) {
			f, err := b.hostsFile(n)
			return "hosts " + f + " {\n reload 0\n}", err
		})}
	file = &peer{name: "file", missRcode: dns.RcodeNameError, version: (*bench).coreDNSVersion,
		prepare: corefilePeer(func(b *bench, n int) (string, error) {
			f, err := b.zoneFile(n)
			return "transfer {\n to *\n}\nfile " + f + " {\n reload 0\n}", err
		})}
	dynupdate = &peer{name: "dynupdate", missRcode: dns.RcodeNameError, version: (*bench).coreDNSVersion, most: 10_000, prepare: prepareDynupdate,
		durable: "bolt, the whole zone as one value per update, fdatasync"}
)

func prepareDDNS(b *bench, dir string, n int) (*launch, error) {
	zone, err := b.zoneFile(n)
	if err != nil {
		return nil, err
	}
	token, err := policy.Generate(rand.Reader)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("token bench %s {\n update *.%s A AAAA\n reload\n}\nkey %s {\n update *.%s A AAAA ANY\n}\n", token.Hash, origin, keyName, origin)
	if err := os.WriteFile(filepath.Join(dir, "policy"), []byte(text), 0o600); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	http := "127.0.0.1:" + port
	l, err := b.corefile(dir, fmt.Sprintf(`tsig {
 secret %s %s
 require_opcode UPDATE
}
transfer {
 to *
}
ddns {
 seed %s
 store bolt ddns.db
 policy policy
 http %s
}`, keyName, keySecret, zone, http))
	if err != nil {
		return nil, err
	}
	l.http = http
	l.update = func() (client, error) { return dialHTTP(http, ddnsRequest(token.Token), ddnsReply) }
	l.updateD = func() (client, error) { return dialUpdate(l.dns) }
	l.disk = []string{"ddns.db", "ddns.db.wal"}
	return l, nil
}

func prepareBare(b *bench, dir string, n int) (*launch, error) {
	zone, err := b.zoneFile(n)
	if err != nil {
		return nil, err
	}
	return b.corefile(dir, "ddns {\n file "+zone+"\n store memory\n http off\n}")
}

func prepareDynupdate(b *bench, dir string, n int) (*launch, error) {
	zone, err := b.zoneFile(n)
	if err != nil {
		return nil, err
	}
	l, err := b.corefile(dir, fmt.Sprintf(`tsig {
 secret %s %s
 require_opcode UPDATE
}
dynupdate {
 file %s
 database dyn.db
 allow %s * *
 max_records 3000000
 max_bytes 1000000000
}`, keyName, keySecret, zone, keyName))
	if err != nil {
		return nil, err
	}
	l.updateD = func() (client, error) { return dialUpdate(l.dns) }
	l.disk = []string{"dyn.db"}
	return l, nil
}

func corefilePeer(stanza func(b *bench, n int) (string, error)) func(*bench, string, int) (*launch, error) {
	return func(b *bench, dir string, n int) (*launch, error) {
		text, err := stanza(b, n)
		if err != nil {
			return nil, err
		}
		return b.corefile(dir, text)
	}
}

// corefile writes a Corefile with one server block.
func (b *bench) corefile(dir, stanza string) (*launch, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	if b.profile {
		debug, err := freePort()
		if err != nil {
			return nil, err
		}
		stanza = "pprof 127.0.0.1:" + debug + "\n" + stanza
		if err := os.WriteFile(filepath.Join(dir, "pprof"), []byte(debug), 0o644); err != nil {
			return nil, err
		}
	}
	text := fmt.Sprintf("%s:%s {\nbind 127.0.0.1\nroot %s\n%s\nerrors\n}\n", origin, port, dir, stanza)
	if err := os.WriteFile(filepath.Join(dir, "Corefile"), []byte(text), 0o644); err != nil {
		return nil, err
	}
	return &launch{argv: []string{b.coredns, "-conf", "Corefile"}, dns: "127.0.0.1:" + port}, nil
}

func (b *bench) coreDNSVersion() string {
	return strings.ReplaceAll(strings.TrimSpace(output(b.coredns, "-version")), "\n", ", ")
}
