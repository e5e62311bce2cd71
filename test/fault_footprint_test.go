package test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// footprint is what a process holds.
type footprint struct {
	goroutines, descriptors int
	heap                    int64 // live after a collection, with the stacks
	resident                int64 // as the kernel counts, what the heap has not given back included
}

func (f footprint) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, heap %.1f MiB, resident %.1f MiB",
		f.goroutines, f.descriptors, float64(f.heap)/(1<<20), float64(f.resident)/(1<<20))
}

// watched prepares a process whose insides can be looked at. block and stanza are
// further lines of its Corefile.
func watched(t testing.TB, block, stanza string) *process {
	t.Helper()
	p := prepare(t)
	p.pprof = freeAddress(t)
	p.write("Corefile", p.corefile("pprof "+p.pprof+"\n"+block, stanza))
	return p
}

func (p *process) profile(path string) (string, error) {
	resp, err := fresh.Get("http://" + p.pprof + "/debug/pprof/" + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return string(b), err
}

var (
	goroutineTotal = regexp.MustCompile(`(?m)^goroutine profile: total (\d+)`)
	heapLive       = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)`)
	stackInUse     = regexp.MustCompile(`(?m)^# Stack = (\d+)`)
	residentSize   = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB`)
)

func number64(t testing.TB, re *regexp.Regexp, text string) int64 {
	t.Helper()
	m := re.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("there is no %v in what the process says of itself", re)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (p *process) proc(name string) string {
	return filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), name)
}

// footprint collects garbage and measures.
func (p *process) footprint() footprint {
	p.t.Helper()
	var heap string
	var err error
	for range 2 { // what is in a sync.Pool goes with the second collection
		if heap, err = p.profile("heap?debug=1&gc=1"); err != nil {
			p.t.Fatal(err)
		}
	}
	goroutines, err := p.profile("goroutine?debug=1")
	if err != nil {
		p.t.Fatal(err)
	}
	status, err := os.ReadFile(p.proc("status"))
	if err != nil {
		p.t.Fatal(err)
	}
	open, err := os.ReadDir(p.proc("fd"))
	if err != nil {
		p.t.Fatal(err)
	}
	return footprint{
		goroutines:  int(number64(p.t, goroutineTotal, goroutines)),
		descriptors: len(open),
		heap:        number64(p.t, heapLive, heap) + number64(p.t, stackInUse, heap),
		resident:    number64(p.t, residentSize, string(status)) << 10,
	}
}

// descriptors counts what the process has open.
func (p *process) descriptors() int {
	open, err := os.ReadDir(p.proc("fd"))
	if err != nil {
		p.t.Fatal(err)
	}
	return len(open)
}

// warm has the process do each thing once, so that what is made on first use does
// not look like growth, and measures it.
func (p *process) warm() footprint {
	p.t.Helper()
	for n := range 20 {
		if _, err := p.update(nil, "warm", v4(int64(n)), v6(int64(n))); err != nil {
			p.t.Fatal(err)
		}
		p.answers(p.t)
	}
	p.footprint()
	return p.settled(footprint{goroutines: 1 << 20, descriptors: 1 << 20, heap: 1 << 40}, 0)
}

// answers wants it to answer over every transport, and to take an update.
func (p *process) answers(t testing.TB) {
	t.Helper()
	ask := func(network, name, want string) {
		t.Helper()
		var err error
		for range 5 { // after a flood the kernel drops a datagram now and then
			var r *dns.Msg
			if r, err = p.query(network, name+".dyn.example.org", dns.TypeA); err != nil {
				continue
			}
			if len(r.Answer) != 1 || r.Answer[0].(*dns.A).A.String() != want {
				t.Errorf("%s over %s: got %v, want %s", name, network, r.Answer, want)
			}
			return
		}
		t.Errorf("%s over %s: %v", name, network, err)
	}
	ask("udp", "ns1", "127.0.0.1")
	ask("tcp", "ns1", "127.0.0.1")
	want := v4(time.Now().UnixNano() & 0xffffff)
	if _, err := p.update(nil, "still", want); err != nil {
		t.Errorf("updating: %v", err)
	} else {
		ask("udp", "still", want)
	}
}

// settled waits until the process holds no more than before, and reports what is
// left over otherwise. slack is what of the heap may be.
func (p *process) settled(before footprint, slack int64) footprint {
	p.t.Helper()
	const limit = 25 * time.Second
	near := func(now, then, slack int64) bool { return now <= then+then/20+slack }
	deadline := time.Now().Add(limit)
	for {
		now := p.footprint()
		if near(int64(now.goroutines), int64(before.goroutines), 3) && near(int64(now.descriptors), int64(before.descriptors), 3) &&
			near(now.heap, before.heap, slack) {
			return now
		}
		if time.Now().After(deadline) {
			stacks, _ := p.profile("goroutine?debug=1")
			p.t.Errorf("%v later it holds %v; before it was %v\n%s", limit, now, before, head(stacks, 40))
			return now
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// Slack of the heap: what the runtime keeps of each of many thousand goroutines that
// there once were is never freed, and maps do not shrink. What a crowd of ten
// thousand leaves once is less than this; would each leave something, a row of them
// would leave more.
const (
	slackLittle = 4 << 20
	slackCrowd  = 14 << 20
)

func head(s string, lines int) string {
	all := strings.SplitAfterN(s, "\n", lines+1)
	return strings.Join(all[:min(lines, len(all))], "")
}
