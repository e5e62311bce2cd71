package main

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/miekg/dns"
)

// dnsperfQuestions are in a file, which dnsperf goes through again and again.
const dnsperfQuestions = 200_000

var (
	dnsperfRate  = regexp.MustCompile(`(?m)^ *Queries per second: +([0-9.]+)`)
	dnsperfLost  = regexp.MustCompile(`(?m)^ *Queries lost: +([0-9]+)`)
	dnsperfFound = regexp.MustCompile(`(?m)^ *Response codes: .*NOERROR [0-9]+ \(([0-9.]+)%\)`)
)

// dnsperf measures queries by a program that is not ours, with as many sockets and
// questions on the way as flood. It is the check of flood: dnsperf looks at the RCODE
// only, of which there must be as many as names that exist.
func (s *server) dnsperf(d time.Duration) (queries, error) {
	var r queries
	questions := filepath.Join(s.dir, "dnsperf")
	if err := s.writeQuestions(questions); err != nil {
		return r, err
	}
	host, port, err := net.SplitHostPort(s.dns)
	if err != nil {
		return r, err
	}
	out, err := exec.Command("dnsperf", "-s", host, "-p", port, "-d", questions, "-t", "1", "-T", "1",
		"-c", strconv.Itoa(querySockets), "-q", strconv.Itoa(querySockets*queryWindow),
		"-l", strconv.Itoa(int(math.Ceil(d.Seconds())))).CombinedOutput()
	if err != nil {
		return r, fmt.Errorf("dnsperf: %w\n%s", err, out)
	}
	rate, found := dnsperfRate.FindSubmatch(out), dnsperfFound.FindSubmatch(out)
	if rate == nil || found == nil {
		return r, fmt.Errorf("dnsperf said something else:\n%s", out)
	}
	r.rate, _ = strconv.ParseFloat(string(rate[1]), 64)
	if lost := dnsperfLost.FindSubmatch(out); lost != nil {
		r.lost, _ = strconv.Atoi(string(lost[1]))
	}
	want := 100 - 100.0/missShare
	if s.peer.noData {
		want = 100
	}
	if got, _ := strconv.ParseFloat(string(found[1]), 64); math.Abs(got-want) > 2 {
		return r, fmt.Errorf("dnsperf: %s %% of the answers are NOERROR, want about %g", found[1], want)
	}
	return r, nil
}

// writeQuestions writes what dnsperf asks, unless it is there.
func (s *server) writeQuestions(name string) error {
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	rng := rand.New(rand.NewPCG(3, 3))
	for range dnsperfQuestions {
		q, _, err := dns.UnpackDomainName(appendQuery(nil, 0, s.someQuestion(rng)), 12)
		if err != nil {
			return err
		}
		fmt.Fprintln(w, q, "A")
	}
	return w.Flush()
}
