// Package test drives the real program over its sockets: what it promises when it
// is killed, reloaded, stopped, started wrongly, or out of disk.
package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/loopback"
	"github.com/coredns-ddns/ddns/internal/policy"
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "ddns-test-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "coredns")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "../cmd/coredns")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// long reports whether the tests may take their time.
func long() bool { return os.Getenv("DDNS_TEST_LONG") != "" }

// process is a running coredns with its directory.
type process struct {
	t     testing.TB
	dir   string
	dns   string
	http  string
	pprof string // where watched has it tell of itself
	token string
	cmd   *exec.Cmd
	log   *logBuffer
	ended chan error // gets the outcome of Wait
}

// logBuffer is the program's output so far.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
	grew chan struct{} // one slot
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.grew <- struct{}{}:
	default:
	}
	return l.text.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await waits until the output has a text so many times.
func (l *logBuffer) await(text string, times int, limit time.Duration) bool {
	timeout := time.After(limit)
	for strings.Count(l.String(), text) < times {
		select {
		case <-l.grew:
		case <-timeout:
			return strings.Count(l.String(), text) >= times
		}
	}
	return true
}

// corefile is a server block for dyn.example.org; block and stanza are further
// lines of each.
func (p *process) corefile(block, stanza string) string {
	return fmt.Sprintf(`dyn.example.org:%s {
    bind 127.0.0.1
    ddns {
        ns ns1.dyn.example.org 127.0.0.1
        store bolt ddns.db
        policy policy
        http %s
        %s
    }
    errors
    %s
}
`, port(p.dns), p.http, stanza, block)
}

// prepare makes a directory with a policy and a Corefile, and starts nothing.
func prepare(t testing.TB) *process {
	t.Helper()
	p := &process{t: t, dir: t.TempDir(), dns: freeAddress(t), http: freeAddress(t)}
	g, err := policy.Generate(random{})
	if err != nil {
		t.Fatal(err)
	}
	p.token = g.Token
	p.write("policy", fmt.Sprintf("token all %s {\n    update *.dyn.example.org *\n    reload\n}\nkey test.example.org. {\n    update *.dyn.example.org A AAAA TXT ANY\n}\n", g.Hash))
	p.write("Corefile", p.corefile("", ""))
	return p
}

func (p *process) write(name, text string) {
	p.t.Helper()
	// Renamed into place: the program may read it at any moment.
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		p.t.Fatal(err)
	}
}

// launch starts the program and does not wait for it to answer.
func (p *process) launch(prefix ...string) {
	p.t.Helper()
	args := append(prefix, binary, "-conf", "Corefile")
	p.cmd = exec.Command(args[0], args[1:]...)
	p.cmd.Dir = p.dir
	p.log = &logBuffer{grew: make(chan struct{}, 1)}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	ended, cmd := make(chan error, 1), p.cmd
	p.ended = ended
	go func() { ended <- cmd.Wait(); close(ended) }()
	p.t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
}

// start starts the program and waits until it answers.
func (p *process) start(prefix ...string) {
	p.t.Helper()
	p.launch(prefix...)
	deadline := time.Now().Add(20 * time.Second)
	for {
		_, errHTTP := p.call("GET", "/ping", nil)
		_, errDNS := p.query("udp", "dyn.example.org", dns.TypeSOA)
		if errHTTP == nil && errDNS == nil {
			return
		}
		select {
		case err := <-p.ended:
			p.t.Fatalf("it ended: %v\n%s", err, p.log)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("it does not answer: HTTP %v, DNS %v\n%s", errHTTP, errDNS, p.log)
		}
	}
}

// kill ends it as a power cut would, as far as a process can tell.
func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	<-p.ended
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// wait waits for the end and returns the exit status.
func (p *process) wait(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		p.t.Fatalf("it still runs after %v\n%s", limit, p.log)
		return -1
	}
}

// reply is an answer over HTTP.
type reply struct {
	status int
	header http.Header
	body   struct {
		Changed bool
		Serial  uint32
		Code    string
	}
}

var fresh = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}

// call makes one request; with a nil client over a connection of its own.
func (p *process) call(method, path string, c *http.Client) (reply, error) {
	if c == nil {
		c = fresh
	}
	req, err := http.NewRequest(method, "http://"+p.http+path, nil)
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	resp, err := c.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}, err
	}
	r := reply{status: resp.StatusCode, header: resp.Header}
	return r, json.Unmarshal(b, &r.body)
}

// update publishes addresses and returns an error for everything but a yes.
func (p *process) update(c *http.Client, name string, addresses ...string) (reply, error) {
	q := url.Values{"fqdn": {name + ".dyn.example.org"}, "ip": addresses}
	r, err := p.call("GET", "/update?"+q.Encode(), c)
	if err == nil && r.status != http.StatusOK {
		err = fmt.Errorf("status %d %s", r.status, r.body.Code)
	}
	return r, err
}

func (p *process) query(network, name string, qtype uint16) (*dns.Msg, error) {
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(name), qtype)
	c := &dns.Client{Net: network, Timeout: 2 * time.Second}
	r, _, err := c.Exchange(m, p.dns)
	if err == nil && r.Rcode != dns.RcodeSuccess && r.Rcode != dns.RcodeNameError {
		err = fmt.Errorf("rcode %s", dns.RcodeToString[r.Rcode])
	}
	return r, err
}

// address is the first address of a type that a name has, "" without one.
func (p *process) address(name string, qtype uint16) string {
	p.t.Helper()
	r, err := p.query("udp", name+".dyn.example.org", qtype)
	if err != nil {
		p.t.Fatalf("asking for %s: %v", name, err)
	}
	for _, rr := range r.Answer {
		switch rr := rr.(type) {
		case *dns.A:
			return rr.A.String()
		case *dns.AAAA:
			return rr.AAAA.String()
		}
	}
	return ""
}

func (p *process) serial() uint32 {
	p.t.Helper()
	r, err := p.query("udp", "dyn.example.org", dns.TypeSOA)
	if err != nil {
		p.t.Fatal(err)
	}
	return r.Answer[0].(*dns.SOA).Serial
}

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
