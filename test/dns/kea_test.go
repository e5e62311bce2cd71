package dns_test

import (
	"encoding/binary"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// dhcpPrimary runs the server of the Kea recipe.
func dhcpPrimary(t testing.TB) *server {
	t.Helper()
	s := prepare(t, recipe(t, "dns-update.md", "policy.kea"))
	s.start(adapt(t, corefile(t, "dns-update.md", 1), "ns1.dyn.example.org 192.0.2.1", "ns1.dyn.example.org 127.0.0.1"))
	return s
}

// change is a NameChangeRequest, which Kea's DHCP servers send to D2.
type change struct {
	Type       int    `json:"change-type"` // 0 add, 1 remove
	Forward    bool   `json:"forward-change"`
	Reverse    bool   `json:"reverse-change"`
	FQDN       string `json:"fqdn"`
	Address    string `json:"ip-address"`
	DHCID      string `json:"dhcid"`
	Expires    string `json:"lease-expires-on"`
	Length     int    `json:"lease-length"`
	Resolution bool   `json:"use-conflict-resolution"`

	free bool // without conflict resolution
}

// TestKea has Kea's D2 add, renew and remove leases of both families, and refuse
// a client whose name is another's.
func TestKea(t *testing.T) {
	need(t, "kea-dhcp-ddns")
	s := dhcpPrimary(t)
	d2 := freeAddress(t)
	config := adapt(t, recipe(t, "dns-update.md", "kea-dhcp-ddns.conf"),
		`"ip-address": "192.0.2.1", "port": 53 `, `"ip-address": "127.0.0.1", "port": `+port(s.dns)+` `, `"port": 53001`, `"port": `+port(d2))
	// Its files go where the test's do.
	log := daemon(t, s.dir, []string{"KEA_PIDFILE_DIR=" + s.dir, "KEA_LOCKFILE_DIR=" + s.dir, "KEA_LOGGER_DESTINATION=stdout"},
		"kea-dhcp-ddns", "-d", "-c", write(t, s.dir, "kea-dhcp-ddns.conf", config))
	until(t, 20*time.Second, "D2's start", func() bool { return strings.Contains(log.String(), "DHCP_DDNS_STARTED") })
	conn, err := net.Dial("udp", d2)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	requests := 0
	// ask sends a change and waits until D2 is through with it, well or badly.
	ask := func(c change) bool {
		t.Helper()
		c.Forward, c.Reverse = true, true
		c.Expires, c.Length = time.Now().UTC().Add(time.Hour).Format("20060102150405"), 3600
		body, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(body))), body...)); err != nil {
			t.Fatal(err)
		}
		requests++
		ended := func(words ...string) (n int) {
			for _, w := range words {
				n += strings.Count(log.String(), w)
			}
			return n
		}
		good, bad := []string{"DHCP_DDNS_ADD_SUCCEEDED", "DHCP_DDNS_REMOVE_SUCCEEDED"}, []string{"DHCP_DDNS_ADD_FAILED", "DHCP_DDNS_REMOVE_FAILED"}
		before := ended(good...)
		until(t, 20*time.Second, "the end of D2's request", func() bool { return ended(append(good, bad...)...) == requests })
		return ended(good...) > before
	}
	const (
		name     = "laptop.dyn.example.org."
		v4, v6   = "192.0.2.17", "2001:db8::17"
		reverse4 = "17.2.0.192.in-addr.arpa."
		mine     = "000201" + "aa112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
		others   = "000201" + "bb112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	)
	reverse6, err := dns.ReverseAddr(v6)
	if err != nil {
		t.Fatal(err)
	}
	state := func() string {
		return strings.Join([]string{s.data(name, dns.TypeA), s.data(name, dns.TypeAAAA), s.data(reverse4, dns.TypePTR), s.data(reverse6, dns.TypePTR)}, "|")
	}
	// Kea 2.2 takes the prerequisite that keeps the name for the other family for a
	// failure, and leaves the PTR; newer ones do not.
	const yes, no, maybe = "yes", "no", "maybe"
	steps := []struct {
		what   string
		change change
		done   string // whether D2 is content
		want   string
	}{
		{"add IPv4", change{Type: 0, Address: v4, DHCID: mine}, yes, v4 + "||" + name + "|"},
		{"add IPv6 of the same client", change{Type: 0, Address: v6, DHCID: mine}, yes, v4 + "|" + v6 + "|" + name + "|" + name},
		{"renew IPv4", change{Type: 0, Address: v4, DHCID: mine}, yes, v4 + "|" + v6 + "|" + name + "|" + name},
		{"renew IPv6", change{Type: 0, Address: v6, DHCID: mine}, yes, v4 + "|" + v6 + "|" + name + "|" + name},
		{"another client with that name", change{Type: 0, Address: "192.0.2.99", DHCID: others}, no, v4 + "|" + v6 + "|" + name + "|" + name},
		{"another client's lease ends", change{Type: 1, Address: v4, DHCID: others}, no, v4 + "|" + v6 + "|" + name + "|" + name},
		{"remove IPv4", change{Type: 1, Address: v4, DHCID: mine}, maybe, "|" + v6 + "|"},
		{"remove IPv6", change{Type: 1, Address: v6, DHCID: mine}, maybe, "||"},
		{"add IPv4 alone", change{Type: 0, Address: v4, DHCID: mine}, yes, v4 + "||" + name + "|"},
		{"remove IPv4 alone", change{Type: 1, Address: v4, DHCID: mine}, yes, "|||"},
		{"without conflict resolution: IPv4", change{Type: 0, Address: v4, DHCID: mine, free: true}, yes, v4 + "||" + name + "|"},
		{"without conflict resolution: IPv6 of another identity", change{Type: 0, Address: v6, DHCID: others, free: true}, yes, v4 + "|" + v6 + "|" + name + "|" + name},
	}
	for _, step := range steps {
		step.change.FQDN, step.change.Resolution = name, !step.change.free
		if done := ask(step.change); step.done != maybe && done != (step.done == yes) {
			t.Errorf("%s: D2 is content: %v", step.what, done)
		}
		if got := state(); got != step.want && !(step.done == maybe && strings.HasPrefix(got, step.want)) {
			t.Fatalf("%s: got %s, want %s", step.what, got, step.want)
		}
	}
	if got := s.metric("coredns_ddns_responses_total", `opcode="UPDATE"`, `rcode="YXDOMAIN"`); got == 0 {
		t.Error("no prerequisite failed: Kea did not resolve a conflict")
	}
	if strings.Contains(s.log.String(), "Refused an UPDATE") {
		t.Error("the log calls a DHCP server's prerequisite a refusal")
	}
}
