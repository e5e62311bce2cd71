package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/miekg/dns"
)

// The peers from Debian packages, each with one worker, its defaults of
// durability, and nothing else that costs: no log of queries, no rate limit.
var (
	bind = &peer{name: "bind", missRcode: dns.RcodeNameError, prepare: prepareBIND, version: versionOf("named", "-v"),
		durable: "journal file, fsync before the yes"}
	knot = &peer{name: "knot", missRcode: dns.RcodeNameError, prepare: prepareKnot, version: versionOf("knotd", "-V"),
		durable: "LMDB journal (journal-mode robust), zonefile-sync -1"}
	nsd = &peer{name: "nsd", missRcode: dns.RcodeNameError, prepare: prepareNSD, version: versionOf("nsd", "-v"),
		durable: "takes no updates"}
	powerDNS = &peer{name: "pdns", missRcode: dns.RcodeNameError, prepare: preparePowerDNS, version: versionOf("pdns_server", "--version"),
		durable: "sqlite, synchronous as delivered", most: 100_000}
	nothing = &peer{name: "net/http", noData: true, prepare: prepareNothing, version: func(*bench) string { return "an empty handler" },
		durable: "does nothing: the ceiling of HTTP"}
)

func prepareBIND(b *bench, dir string, n int) (*launch, error) {
	zone, err := b.zoneFile(n)
	if err != nil {
		return nil, err
	}
	// BIND writes the changed zone back to its file, so it gets its own.
	if err := copyFile(zone, filepath.Join(dir, "zone")); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(`options {
	directory "%s"; pid-file "named.pid"; session-keyfile "session.key";
	listen-on port %s { 127.0.0.1; }; listen-on-v6 { none; };
	recursion no; notify no; dnssec-validation no; allow-transfer { any; };
	update-quota 1000; minimal-responses no;
};
controls { };
key "%s" { algorithm hmac-sha256; secret "%s"; };
zone "%s" { type primary; file "zone"; allow-update { key "%s"; }; };
`, dir, port, keyName, keySecret, origin, keyName)
	if err := os.WriteFile(filepath.Join(dir, "named.conf"), []byte(text), 0o644); err != nil {
		return nil, err
	}
	l := &launch{argv: []string{tool("named"), "-f", "-n", "1", "-c", filepath.Join(dir, "named.conf")}, dns: "127.0.0.1:" + port, disk: []string{"zone*"}}
	l.updateD = func() (client, error) { return dialUpdate(l.dns) }
	return l, nil
}

func prepareKnot(b *bench, dir string, n int) (*launch, error) {
	zone, err := b.zoneFile(n)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(`server:
    listen: 127.0.0.1@%s
    rundir: %s
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
log:
  - target: stderr
    any: warning
database:
    storage: %s
key:
  - id: %s
    algorithm: hmac-sha256
    secret: %s
acl:
  - id: update
    key: %s
    action: update
  - id: transfer
    address: 127.0.0.1
    action: transfer
zone:
  - domain: %s
    file: %s
    zonefile-sync: -1
    acl: [update, transfer]
`, port, dir, dir, keyName, keySecret, keyName, origin, zone)
	if err := os.WriteFile(filepath.Join(dir, "knot.conf"), []byte(text), 0o644); err != nil {
		return nil, err
	}
	l := &launch{argv: []string{tool("knotd"), "-c", filepath.Join(dir, "knot.conf")}, dns: "127.0.0.1:" + port, disk: []string{"journal/*"}}
	l.updateD = func() (client, error) { return dialUpdate(l.dns) }
	return l, nil
}

func prepareNSD(b *bench, dir string, n int) (*launch, error) {
	zone, err := b.zoneFile(n)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(`server:
	ip-address: 127.0.0.1@%[1]s
	server-count: 1
	username: ""
	chroot: ""
	zonesdir: "%[2]s"
	database: ""
	pidfile: "%[2]s/nsd.pid"
	xfrdfile: "%[2]s/xfrd.state"
	xfrdir: "%[2]s"
	zonelistfile: "%[2]s/zone.list"
	rrl-ratelimit: 0
remote-control:
	control-enable: no
zone:
	name: %[3]s
	zonefile: %[4]s
	provide-xfr: 127.0.0.1 NOKEY
`, port, dir, origin, zone)
	if err := os.WriteFile(filepath.Join(dir, "nsd.conf"), []byte(text), 0o644); err != nil {
		return nil, err
	}
	return &launch{argv: []string{tool("nsd"), "-d", "-c", filepath.Join(dir, "nsd.conf")}, dns: "127.0.0.1:" + port}, nil
}

func preparePowerDNS(b *bench, dir string, n int) (*launch, error) {
	zone, err := b.zoneFile(n)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	api, err := freePort()
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(`launch=gsqlite3
gsqlite3-database=%[1]s/pdns.sqlite3
gsqlite3-dnssec=no
socket-dir=%[1]s
local-address=127.0.0.1
local-port=%[2]s
receiver-threads=1
distributor-threads=1
dnsupdate=yes
allow-dnsupdate-from=127.0.0.1
api=yes
api-key=bench
webserver=yes
webserver-address=127.0.0.1
webserver-port=%[3]s
webserver-allow-from=127.0.0.1
daemon=no
guardian=no
disable-axfr=no
allow-axfr-ips=127.0.0.1
loglevel=3
consistent-backends=yes
`, dir, port, api)
	if err := os.WriteFile(filepath.Join(dir, "pdns.conf"), []byte(text), 0o644); err != nil {
		return nil, err
	}
	schema, err := powerDNSSchema()
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(origin, ".")
	for _, argv := range [][]string{
		{"sqlite3", "pdns.sqlite3", ".read " + schema},
		{"pdnsutil", "--config-dir=" + dir, "load-zone", name, zone},
		{"pdnsutil", "--config-dir=" + dir, "import-tsig-key", strings.TrimSuffix(keyName, "."), "hmac-sha256", keySecret},
		{"pdnsutil", "--config-dir=" + dir, "set-meta", name, "TSIG-ALLOW-DNSUPDATE", strings.TrimSuffix(keyName, ".")},
	} {
		cmd := exec.Command(tool(argv[0]), argv[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
		}
	}
	l := &launch{argv: []string{tool("pdns_server"), "--config-dir=" + dir}, dns: "127.0.0.1:" + port, http: "127.0.0.1:" + api, disk: []string{"pdns.sqlite3*"}}
	l.update = func() (client, error) { return dialHTTP(l.http, powerDNSRequest, noContent) }
	l.updateD = func() (client, error) { return dialUpdate(l.dns) }
	return l, nil
}

func powerDNSSchema() (string, error) {
	for _, f := range []string{"/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql", "/usr/share/doc/pdns-backend-sqlite3/schema.sqlite3.sql"} {
		if _, err := os.Stat(f); err == nil {
			return f, nil
		}
	}
	return "", fmt.Errorf("the package pdns-backend-sqlite3 has no schema")
}

func powerDNSRequest(b []byte, host, generation int) []byte {
	body := fmt.Sprintf(`{"rrsets":[{"name":"%s","type":"A","ttl":60,"changetype":"REPLACE","records":[{"content":"%s","disabled":false}]}]}`,
		hostName(host), address(host, generation))
	return fmt.Appendf(b, "PATCH /api/v1/servers/localhost/zones/%s HTTP/1.1\r\nHost: pdns\r\nX-API-Key: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		origin, len(body), body)
}

func noContent(status int, body []byte, _, _ int) error {
	if status != http.StatusNoContent {
		return fmt.Errorf("HTTP %d: %s", status, body)
	}
	return nil
}

func prepareNothing(b *bench, dir string, n int) (*launch, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	address := "127.0.0.1:" + port
	return &launch{argv: []string{self, "-serve-nothing", address}, http: address, update: func() (client, error) {
		return dialHTTP(address, ddnsRequest("none"), func(status int, body []byte, _, _ int) error {
			if status != http.StatusOK {
				return fmt.Errorf("HTTP %d: %s", status, body)
			}
			return nil
		})
	}}, nil
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

// tool is the path of a command; servers live in sbin, which is not always in PATH.
func tool(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return name
}

func versionOf(name, option string) func(*bench) string {
	return func(*bench) string {
		first, _, _ := strings.Cut(strings.TrimSpace(output(tool(name), option)), "\n")
		return first
	}
}

// output is what a command says, on both streams; nothing if there is none.
func output(name string, args ...string) string {
	out, _ := exec.Command(name, args...).CombinedOutput()
	return string(out)
}
