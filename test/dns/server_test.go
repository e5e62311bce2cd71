// Package dns_test runs the real program beside the real programs of others:
// clients that send DNS UPDATE, servers that fetch zones, resolvers that validate.
// What the documentation tells people to type is what these tests run.
package dns_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/loopback"
	"github.com/coredns-ddns/ddns/internal/policy"
)

// program is coredns with the plugin, built once as "make build" does.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "ddns-dns-test-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "coredns")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", program, "../../cmd/coredns")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building: %v\n%s", err, out)
		os.Exit(1)
	}
	// The programs of others live in sbin and in bin/tools.
	tools, err := filepath.Abs("../../bin/tools")
	if err != nil {
		panic(err)
	}
	os.Setenv("PATH", tools+":"+os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin")
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// need skips a test that needs a program which is not there, except in CI, where
// all of them are.
func need(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not installed, and CI is set", p)
		}
		t.Skipf("%s is not installed: make clients", p)
	}
}

// long reports whether the tests may take their time.
func long() bool { return os.Getenv("DDNS_TEST_LONG") != "" }

// Keys of the tests. The secret is the example of the documentation.
const (
	secret  = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk="
	fullKey = "full.example.org." // may do everything in every zone of a test
)

// output is what a program has printed so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// daemon runs a program until the test ends.
func daemon(t testing.TB, dir string, env []string, argv ...string) *output {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	o := new(output)
	cmd.Stdout, cmd.Stderr = o, o
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			text := o.String()
			if len(text) > 4000 && os.Getenv("DDNS_ALL_LOGS") == "" {
				text = "…" + text[len(text)-4000:]
			}
			t.Logf("%s said:\n%s", argv[0], text)
		}
	})
	return o
}

// run runs a program that must succeed and returns what it printed.
func run(t testing.TB, env []string, stdin string, argv ...string) string {
	t.Helper()
	out, err := try(t, env, stdin, argv...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return out
}

func try(t testing.TB, env []string, stdin string, argv ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// until waits for a condition that another process brings about.
func until(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come about in %v", what, limit)
		}
	}
}

// freeAddress is one of 127.0.0.1 that nothing listens on, neither UDP nor TCP.
func freeAddress(t testing.TB) string {
	t.Helper()
	a, err := loopback.Address()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func port(address string) string {
	_, p, _ := net.SplitHostPort(address)
	return p
}

func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// server is a running coredns.
type server struct {
	t       testing.TB
	dir     string
	dns     string // addresses
	http    string
	metrics string
	token   string // may update everything below dyn.example.org
	log     *output
}

// prepare chooses addresses and makes the directory with a policy: the given
// text, a token, and the key that may do everything in dyn.example.org.
func prepare(t testing.TB, policyText string) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir(), dns: freeAddress(t), http: freeAddress(t), metrics: freeAddress(t)}
	g, err := policy.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s.token = g.Token
	write(t, s.dir, "policy", fmt.Sprintf("%s\ntoken test %s {\n    update *.dyn.example.org\n}\nkey %s {\n    update *.dyn.example.org *\n    update dyn.example.org *\n    update \\*.dyn.example.org *\n    update \\*.wild.dyn.example.org *\n    update *.dyn.example.org ANY\n}\n", policyText, g.Hash, fullKey))
	return s
}

// start runs the Corefile as the documentation shows it, but for what a test on
// one machine needs: the ports, an address to listen on, where the database is.
func (s *server) start(corefile string) {
	s.t.Helper()
	var b strings.Builder
	for line := range strings.Lines(corefile) {
		fields := strings.Fields(line)
		switch {
		case len(fields) > 1 && line[0] != ' ' && line[0] != '}' && fields[len(fields)-1] == "{":
			for _, zone := range fields[:len(fields)-1] {
				if !strings.Contains(zone, ":") {
					zone += ":" + port(s.dns)
				}
				b.WriteString(zone + " ")
			}
			fmt.Fprintf(&b, "{\n    bind 127.0.0.1\n    prometheus %s\n", s.metrics)
		case len(fields) > 1 && fields[0] == "ddns" && fields[len(fields)-1] == "{":
			fmt.Fprintf(&b, "%s        http %s\n", line, s.http)
		case len(fields) == 2 && fields[0] == "tsig" && fields[1] == "{":
			fmt.Fprintf(&b, "%s        secret %s %s\n", line, fullKey, secret)
		default:
			b.WriteString(line)
		}
	}
	path := write(s.t, s.dir, "Corefile", b.String())
	s.log = daemon(s.t, s.dir, nil, program, "-conf", path)
	until(s.t, 20*time.Second, "the server's first answer", func() bool {
		conn, err := net.Dial("tcp", s.dns)
		if err != nil {
			return false
		}
		conn.Close()
		_, err = s.exchange("udp", query("dyn.example.org.", dns.TypeSOA))
		return err == nil
	})
}

func query(name string, qtype uint16) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(name), qtype)
	m.RecursionDesired = false
	return m
}

func (s *server) exchange(network string, m *dns.Msg) (*dns.Msg, error) {
	c := &dns.Client{Net: network, Timeout: 3 * time.Second}
	r, _, err := c.Exchange(m, s.dns)
	return r, err
}

// data is the rdata of what a name has of a type, in order, joined by blanks.
func (s *server) data(name string, qtype uint16) string {
	s.t.Helper()
	r, err := s.exchange("tcp", query(name, qtype))
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, rr := range r.Answer {
		if rr.Header().Rrtype == qtype {
			out = append(out, strings.TrimPrefix(rr.String(), rr.Header().String()))
		}
	}
	return strings.Join(sorted(out), " ")
}

func (s *server) serial(zone string) uint32 {
	s.t.Helper()
	r, err := s.exchange("tcp", query(zone, dns.TypeSOA))
	if err != nil || len(r.Answer) == 0 {
		s.t.Fatalf("asking %s for its SOA: %v, %v", zone, r, err)
	}
	return r.Answer[0].(*dns.SOA).Serial
}

// send signs an UPDATE with a key and returns the rcode.
func (s *server) send(network, key string, m *dns.Msg) int {
	s.t.Helper()
	m = m.Copy()
	m.SetTsig(key, dns.HmacSHA256, 300, time.Now().Unix())
	c := &dns.Client{Net: network, Timeout: 10 * time.Second, TsigSecret: map[string]string{key: secret}}
	r, _, err := c.Exchange(m, s.dns)
	if err != nil {
		s.t.Fatalf("sending an UPDATE: %v", err)
	}
	return r.Rcode
}

// publish updates a name over HTTP.
func (s *server) publish(name string, addresses ...string) error {
	req, err := http.NewRequest("GET", "http://"+s.http+"/update?"+url.Values{"fqdn": {name}, "ip": addresses}.Encode(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return err
}

// metric reads the sum of a metric's series with the given labels, as in
// `zone="dyn.example.org."`.
func (s *server) metric(name string, labels ...string) float64 {
	s.t.Helper()
	resp, err := http.Get("http://" + s.metrics + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	total := 0.0
lines:
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		series, value, ok := strings.Cut(lines.Text(), "} ")
		if !ok || !strings.HasPrefix(series, name+"{") {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(series, l) {
				continue lines
			}
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			s.t.Fatalf("metric %s: %v", series, err)
		}
		total += n
	}
	return total
}
