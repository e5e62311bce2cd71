package examples_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/loopback"
)

// TestEveryExampleStarts starts the real CoreDNS on a copy of each example and
// asks it for the zone's apex. Only what two servers on one machine cannot share
// is changed in the copy: ports, addresses, and the directories of a system.
func TestEveryExampleStarts(t *testing.T) {
	need(t, "openssl", "tsig-keygen", "dnssec-keygen")
	bin := filepath.Join(t.TempDir(), "coredns")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "../cmd/coredns").CombinedOutput(); err != nil {
		t.Fatalf("building CoreDNS: %v\n%s", err, out)
	}
	corefiles, err := filepath.Glob("*/Corefile")
	if err != nil || len(corefiles) < 6 {
		t.Fatalf("found %v, %v", corefiles, err)
	}
	for _, file := range corefiles {
		t.Run(filepath.Dir(file), func(t *testing.T) {
			dir := copied(t, filepath.Dir(file))
			if _, err := os.Stat(filepath.Join(dir, "prepare.sh")); err == nil {
				run(t, dir, "./prepare.sh")
			}
			port := freePort(t)
			localise(t, filepath.Join(dir, "Corefile"), dir, port)

			var log bytes.Buffer
			server := exec.Command(bin, "-dns.port", port, "-conf", "Corefile")
			server.Dir, server.Stdout, server.Stderr = dir, &log, &log
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- server.Wait() }()
			t.Cleanup(func() {
				server.Process.Kill()
				<-ended
			})

			zone := "dyn.example.org."
			if filepath.Dir(file) == "home" {
				zone = "home.example.org."
			}
			reply := ask(t, "127.0.0.1:"+port, zone, ended, &log)
			if reply.Rcode != dns.RcodeSuccess || !reply.Authoritative || !holds(reply.Answer, dns.TypeSOA) {
				t.Errorf("asked for the SOA, got\n%v", reply)
			}
			if signed := holds(reply.Answer, dns.TypeRRSIG); signed != (filepath.Dir(file) == "dnssec") {
				t.Errorf("signed: got %v\n%v", signed, reply)
			}

			server.Process.Signal(syscall.SIGTERM)
			select {
			case err := <-ended:
				ended <- err
				if err != nil {
					t.Errorf("after SIGTERM: %v\n%s", err, log.String())
				}
			case <-time.After(30 * time.Second):
				t.Error("still running 30 seconds after SIGTERM")
			}
		})
	}
}

var (
	blockStart = regexp.MustCompile(`(?m)^(\S+?)(?::\d+)? \{$`)
	stanza     = regexp.MustCompile(`(?m)^    ddns \{$`)
	httpLine   = regexp.MustCompile(`(?m)^        http \S+`)
	sidePort   = regexp.MustCompile(`(?m)^(    (?:health|ready|prometheus)).*?( \{)?$`)
	lameduck   = regexp.MustCompile(`lameduck \S+`)
)

// localise rewrites a Corefile so that it can run here, beside others.
func localise(t *testing.T, file, dir, port string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := blockStart.ReplaceAllString(string(text), "$1:"+port+" {\n    bind 127.0.0.1")
	if httpLine.MatchString(s) {
		s = httpLine.ReplaceAllString(s, "        http 127.0.0.1:0")
	} else {
		s = stanza.ReplaceAllString(s, "$0\n        http 127.0.0.1:0")
	}
	s = sidePort.ReplaceAllString(s, "$1 127.0.0.1:0$2")
	s = lameduck.ReplaceAllString(s, "lameduck 100ms")
	s = strings.NewReplacer("/etc/coredns/", dir+"/", "/var/lib/coredns/", dir+"/", " /data/", " "+dir+"/").Replace(s)
	if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ask waits until the server answers, or has ended.
func ask(t *testing.T, server, zone string, ended chan error, log *bytes.Buffer) *dns.Msg {
	t.Helper()
	m := new(dns.Msg).SetQuestion(zone, dns.TypeSOA).SetEdns0(1232, true)
	client := dns.Client{Net: "tcp", Timeout: 5 * time.Second}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for {
		reply, _, err := client.ExchangeContext(t.Context(), m, server)
		if err == nil {
			return reply
		}
		select {
		case <-tick.C:
		case exit := <-ended:
			ended <- exit
			t.Fatalf("CoreDNS ended: %v\n%s", exit, log.String())
		case <-late:
			t.Fatalf("no answer within 30 seconds: %v", err)
		}
	}
}

func holds(rrs []dns.RR, typ uint16) bool {
	for _, rr := range rrs {
		if rr.Header().Rrtype == typ {
			return true
		}
	}
	return false
}

// freePort is free for TCP and UDP on 127.0.0.1.
func freePort(t *testing.T) string {
	t.Helper()
	address, err := loopback.Address()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	return port
}
